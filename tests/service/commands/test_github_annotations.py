"""Workflow commands: what is in a message or a name stays in it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunebook.service.commands.github_annotations import annotation, runs_on_github

# As GitHub's runner takes a command apart (ActionCommand.TryParseV2).
_COMMAND = re.compile(r"::(?P<level>\w+) (?P<properties>.*?)::(?P<message>.*)")
_CODES = {"%0D": "\r", "%0A": "\n", "%25": "%"}


def read(line: str) -> tuple[str, dict[str, str], str]:
    """A command as the runner reads it."""
    match = _COMMAND.fullmatch(line)
    assert match is not None
    pairs = (one.split("=", 1) for one in match["properties"].split(","))
    codes = {**_CODES, "%3A": ":", "%2C": ","}
    properties = {name: _decode(value, codes) for name, value in pairs}
    return match["level"], properties, _decode(match["message"], _CODES)


def _decode(text: str, codes: dict[str, str]) -> str:
    return re.sub("|".join(codes), lambda found: codes[found[0]], text)


def test_a_miss_marks_its_file() -> None:
    line = annotation("error", "Schedules are missing", "2 never-tuned", "models/a.onnx")
    assert line == "::error file=models/a.onnx,title=Schedules are missing::2 never-tuned"


def test_what_has_no_file_marks_the_run() -> None:
    assert annotation("error", "No model", "gone") == "::error title=No model::gone"


@given(title=st.text(), message=st.text(), file=st.text())
def test_no_text_ends_a_command_or_becomes_another_part_of_it(
    title: str, message: str, file: str
) -> None:
    line = annotation("error", title, message, file)
    assert "\n" not in line
    assert "\r" not in line
    assert read(line) == ("error", {"file": file, "title": title}, message)


@pytest.mark.parametrize(
    ("environment", "expected"), [({"GITHUB_ACTIONS": "true"}, True), ({}, False)]
)
def test_only_workflows_are_told(environment: dict[str, str], expected: bool) -> None:
    assert runs_on_github(environment) is expected
