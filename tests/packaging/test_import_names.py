"""The check at the end of every session (tests/conftest.py) finds what it is there to find."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"


@pytest.mark.parametrize("processes", [(), ("-n", "2", "--dist", "loadgroup")])
@pytest.mark.parametrize(
    ("imported", "exit_code"),
    [("cache.words", pytest.ExitCode.TESTS_FAILED), ("json", pytest.ExitCode.OK)],
)
def test_a_session_that_loads_a_module_without_the_prefix_fails(
    tmp_path: Path, imported: str, exit_code: int, processes: tuple[str, ...]
) -> None:
    tests = tmp_path / "tests" / "packaging"
    tests.mkdir(parents=True)
    shutil.copy(CONFTEST, tests.parent)
    # What others compile meanwhile comes and goes.
    skip_bytecode = shutil.ignore_patterns("__pycache__")
    shutil.copytree(CONFTEST.parent / "servers", tests.parent / "servers", ignore=skip_bytecode)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "__init__.py").touch()
    (tmp_path / "cache" / "words.py").touch()
    (tests / "test_words.py").write_text(
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport {imported}\n"
        "def test_that_passes(): pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *processes],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == exit_code, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert ("without the prefix" in done.stdout) == (exit_code != pytest.ExitCode.OK)
