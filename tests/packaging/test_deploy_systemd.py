"""The units are what systemd takes, hardened, and agree with their example of an environment."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from deploy_files import DEPLOY, UNITS, commands_of

SERVICES = [unit for unit in UNITS if unit.suffix == ".service"]
TIMERS = [unit for unit in UNITS if unit.suffix == ".timer"]
# Of those that every unit of ours takes its environment from.
EXAMPLE = (DEPLOY / "systemd" / "tunebook.env.example").read_text()
# Exposure from 0 to 10, as systemd counts it; a service that says nothing has 9.6.
MOST_EXPOSED = 3.0


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Path]:
    """All units in one folder, where every program that they run is one that is there."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze is installed (Debian's package systemd)")
    for unit in (DEPLOY / "systemd").iterdir():
        text = unit.read_text()
        for command in commands_of(unit) if unit in UNITS else ():
            text = text.replace(command[0], "/bin/true")
        (tmp_path / unit.name).write_text(text)
    yield tmp_path


def test_systemd_reads_every_unit(installed: Path) -> None:
    units = [installed / unit.name for unit in UNITS]
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True)
    # It exits with 0 whatever it finds unknown.
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unit", SERVICES, ids=lambda path: path.stem)
def test_a_service_is_exposed_to_little(installed: Path, unit: Path) -> None:
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager"]
    done = subprocess.run([*command, installed / unit.name], capture_output=True, text=True)
    (level,) = re.findall(r"exposure level for .*: ([\d.]+)", done.stdout)
    assert float(level) <= MOST_EXPOSED


@pytest.mark.parametrize("unit", TIMERS, ids=lambda path: path.stem)
def test_a_timer_starts_a_service_and_catches_up(unit: Path) -> None:
    assert unit.with_suffix(".service").exists()
    assert "Persistent=yes" in unit.read_text()


@pytest.mark.parametrize("unit", SERVICES, ids=lambda path: path.stem)
def test_what_a_command_takes_from_the_environment_is_in_the_example(unit: Path) -> None:
    if "EnvironmentFile=/etc/tunebook/tunebook.env" not in unit.read_text():
        return
    used = {name for command in commands_of(unit) for word in command for name in _names(word)}
    assert used <= set(re.findall(r"^(\w+)=", EXAMPLE, re.MULTILINE))


def test_the_user_of_the_services_is_made() -> None:
    made = re.findall(r"^u (\S+)", (DEPLOY / "systemd" / "tunebook.sysusers").read_text(), re.M)
    users = {
        user for unit in SERVICES for user in re.findall(r"^User=(\S+)", unit.read_text(), re.M)
    }
    assert users <= set(made) | {"tunebook-board"}


def _names(word: str) -> list[str]:
    return re.findall(r"\$\{?([A-Z_]+)", word)
