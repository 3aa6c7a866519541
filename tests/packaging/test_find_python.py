"""Setting up starts with a Python that suits, or with a line that says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FIND_PYTHON = Path(__file__).parents[2] / "deploy" / "find-python"


@pytest.fixture
def find(tmp_path: Path):
    """Runs find-python where nothing is on the PATH but the given stand-ins.

    Stand-ins, since a machine has the Pythons that it has: each answers the first question (does
    the version suit?) and the second (can it make environments?) as told.
    """

    def run(**pythons: tuple[bool, bool]) -> subprocess.CompletedProcess[str]:
        for name, (suits, makes_environments) in pythons.items():
            script = tmp_path / name.replace("_", ".")
            script.write_text(
                "#!/bin/sh\n"
                'case "$2" in\n'
                f"  *ensurepip*) exit {int(not makes_environments)} ;;\n"
                f"  *sys.exit*) exit {int(not suits)} ;;\n"
                "  *) echo 3.12 ;;\n"
                "esac\n"
            )
            script.chmod(0o755)
        return subprocess.run(
            ["/bin/sh", FIND_PYTHON], env={"PATH": str(tmp_path)}, capture_output=True, text=True
        )

    return run


def test_the_python_of_this_test_suits() -> None:
    done = subprocess.run(
        [FIND_PYTHON], env={"PYTHON": sys.executable}, capture_output=True, text=True
    )
    assert done.stdout.strip() == sys.executable


def test_the_distributions_own_python_comes_first(find, tmp_path) -> None:
    done = find(python3=(True, True), python3_12=(True, True))
    assert done.stdout.strip() == str(tmp_path / "python3")


def test_a_python_that_is_too_new_is_passed_over(find, tmp_path) -> None:
    done = find(python3=(False, True), python3_12=(True, True))
    assert done.stdout.strip() == str(tmp_path / "python3.12")


def test_a_machine_without_a_python_that_suits_is_told_which_do(find) -> None:
    done = find(python3=(False, True))
    assert done.returncode == 1
    assert "no CPython 3.10 to 3.12 found" in done.stderr


def test_a_python_without_venv_is_told_which_package_brings_it(find) -> None:
    done = find(python3=(True, False))
    assert done.returncode == 1
    assert "apt-get install python3.12-venv" in done.stderr
