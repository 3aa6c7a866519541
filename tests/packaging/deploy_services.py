"""The services of compose.yaml, the images and the units as the tests fill them in."""

from __future__ import annotations

import re
from typing import Any

from deploy_files import DOCKERFILES, UNITS, Dockerfile, commands_of, compose

BOARDS = "boards-of-a-test"
SERVICES: dict[str, dict[str, Any]] = compose(
    {
        "POSTGRES_PASSWORD": "a",
        "REDIS_PASSWORD": "b",
        "GRAFANA_PASSWORD": "c",
        "TUNEBOOK_BOARDS": BOARDS,
    }
)["services"]
IMAGES = {path.name.partition(".")[0]: Dockerfile.read(path) for path in DOCKERFILES}


def extras_of(image: str) -> set[str]:
    """The extras that an image installs."""
    (extras,) = re.findall(r"\.whl\)\[([\w,]+)\]", " ".join(IMAGES[image].all("RUN")))
    return set(extras.split(","))


def units_commands() -> list[tuple[str, list[str]]]:
    """The commands of units that run `tunebook`, each with its unit's name."""
    return [
        (unit.stem, command[1:])
        for unit in UNITS
        for command in commands_of(unit)
        if command[0].endswith("/tunebook")
    ]


def of_unit(name: str, environment: dict[str, str]) -> list[list[str]]:
    """The commands of a unit, with what systemd fills in."""

    def filled(word: str) -> str:
        return re.sub(r"\$\{(\w+)\}", lambda match: environment[match[1]], word)

    return [[filled(word) for word in words] for unit, words in units_commands() if unit == name]
