"""Workflow commands by which a job on GitHub Actions marks files with what is wrong."""

from __future__ import annotations

from collections.abc import Mapping

VARIABLE = "GITHUB_ACTIONS"
# What would end a message, or start another command; in a property also what separates them.
_MESSAGE = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_MESSAGE, ":": "%3A", ",": "%2C"}


def runs_on_github(environment: Mapping[str, str]) -> bool:
    """Whether this process is a step of a workflow, whose output is read for commands."""
    return bool(environment.get(VARIABLE))


def annotation(level: str, title: str, message: str, file: str | None = None) -> str:
    """The line that marks a file (or the run) with an `error`, `warning` or `notice`."""
    properties = {"file": file, "title": title} if file is not None else {"title": title}
    told = ",".join(f"{name}={_escape(text, _PROPERTY)}" for name, text in properties.items())
    return f"::{level} {told}::{_escape(message, _MESSAGE)}"


def _escape(text: str, codes: Mapping[str, str]) -> str:
    return "".join(codes.get(character, character) for character in text)
