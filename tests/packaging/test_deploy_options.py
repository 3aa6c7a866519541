"""No option of any command in compose.yaml, the images or the units is wrong."""

from __future__ import annotations

import pytest
from deploy_services import IMAGES, SERVICES, units_commands

from tunebook.service.cli import run

# Whatever is run by any of them, with its place.
COMMANDS = [
    *((name, service["command"]) for name, service in SERVICES.items() if "build" in service),
    *((f"image {name}", image.command("CMD")) for name, image in IMAGES.items()),
    *((f"unit {name}", words) for name, words in units_commands()),
]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, id=name)
        for name, words in COMMANDS
        if "entrypoint" not in SERVICES.get(name, {})
    ],
)
def test_every_option_of_every_command_is_one(
    words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    # What a unit's environment adds is its owner's.
    known = [word for word in words if not word.startswith("$")]
    assert run([*known, "--help"]) == 0
    assert capfd.readouterr().err == ""
