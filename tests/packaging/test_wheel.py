"""A real wheel, built from the tree, holds exactly what the tree holds."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("cache", "tuner", "workers", "service")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names of the files in the wheel."""
    # In a copy: building leaves folders behind, and must not find any.
    tree = tmp_path_factory.mktemp("tree")
    skip_bytecode = shutil.ignore_patterns("__pycache__")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tree / package, ignore=skip_bytecode)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tree)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tree]
    subprocess.run([*command, "--no-build-isolation", tree], check=True)
    (built,) = tree.glob("tunebook-*.whl")
    with zipfile.ZipFile(built) as archive:
        return archive.namelist()


def test_the_wheel_holds_the_files_of_the_tree(wheel: list[str]) -> None:
    """An omitted sub-package or data file is found by an editable install, and by nobody else."""
    in_tree = {
        f"tunebook/{path.relative_to(ROOT).as_posix()}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    in_wheel = {name for name in wheel if ".dist-info/" not in name}
    assert in_wheel == in_tree


def test_nothing_but_the_namespace_lands_at_the_top(wheel: list[str]) -> None:
    tops = {name.split("/")[0] for name in wheel if ".dist-info/" not in name}
    assert tops == {"tunebook"}


def test_the_namespace_has_no_init(wheel: list[str]) -> None:
    assert "tunebook/__init__.py" not in wheel


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_that_it_is_typed(wheel: list[str], package: str) -> None:
    assert f"tunebook/{package}/py.typed" in wheel
