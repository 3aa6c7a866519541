"""What stands in deploy/, read for the tests: services of compose.yaml, Dockerfiles, units."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
DOCKERFILES = sorted((DEPLOY / "docker").glob("*.Dockerfile"))
UNITS = sorted(
    path for path in (DEPLOY / "systemd").iterdir() if path.suffix in (".service", ".timer")
)
# ${NAME}, ${NAME:-default} and ${NAME:?what is missing}.
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
# Lines of a unit that begin a command; `-`, `@` and the like before it change how it is run.
_COMMAND = re.compile(r"^Exec\w+=[-@:+!|]*(.+)$", re.MULTILINE)


class MissingVariableError(Exception):
    """A variable without which nothing may start."""


def interpolated(text: str, variables: Mapping[str, str]) -> str:
    """A value of compose.yaml as Compose reads it."""

    def value(match: re.Match[str]) -> str:
        name, kind, rest = match.groups()
        if variables.get(name):
            return variables[name]
        if kind == "?":
            raise MissingVariableError(f"{name}: {rest}")
        return rest if kind == "-" else ""

    return _VARIABLE.sub(value, text)


def compose(variables: Mapping[str, str]) -> dict[str, Any]:
    """compose.yaml with its variables filled in, anchors and merges resolved."""
    return _filled(yaml.safe_load(COMPOSE.read_text()), variables)


def _filled(node: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(node, dict):
        return {name: _filled(value, variables) for name, value in node.items()}
    if isinstance(node, list):
        return [_filled(value, variables) for value in node]
    if not isinstance(node, str):
        return node
    return interpolated(node, variables).replace("$$", "$")


@dataclass(frozen=True)
class Dockerfile:
    """A Dockerfile's instructions, in order, each with its words."""

    path: Path
    instructions: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls, path: Path) -> Dockerfile:
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        joined = "\n".join(lines).replace("\\\n", " ")
        split = (line.split(maxsplit=1) for line in joined.splitlines() if line.strip())
        return cls(path, tuple((name.upper(), " ".join(rest.split())) for name, rest in split))

    def all(self, name: str) -> list[str]:
        """The words of every instruction of that name."""
        return [words for instruction, words in self.instructions if instruction == name]

    def last_stage(self) -> Dockerfile:
        """What the image itself is made by."""
        begins = [number for number, (name, _) in enumerate(self.instructions) if name == "FROM"]
        return Dockerfile(self.path, self.instructions[begins[-1] :])

    def command(self, name: str) -> list[str]:
        """The words of ENTRYPOINT, CMD or HEALTHCHECK."""
        words = self.last_stage().all(name)[-1]
        return list(json.loads(words[words.index("[") :]))


def commands_of(unit: Path) -> list[list[str]]:
    """The commands that a unit runs."""
    return [shlex.split(line) for line in _COMMAND.findall(unit.read_text())]
