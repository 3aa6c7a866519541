"""For all tests: what several folders share, and no module may be loaded under two names.

The folders stand at the root of the tree, so `import cache` can succeed by accident; then each
class exists twice, and `isinstance` and registries fail in places far away.
"""

from __future__ import annotations

import gc
import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import psutil
import pytest

PACKAGES = ("cache", "tuner", "workers", "service")


def modules_without_prefix(root: Path) -> list[str]:
    """Loaded modules that lie in our packages, in the tree or installed, under another name."""
    homes = [root / package for package in PACKAGES]
    installed = importlib.util.find_spec("tunebook")
    if installed is not None and installed.submodule_search_locations is not None:
        homes += [Path(place).resolve() for place in installed.submodule_search_locations]
    return sorted(
        f"{name} ({file})"
        for name, file in _loaded_files()
        if not name.startswith("tunebook.") and any(file.is_relative_to(home) for home in homes)
    )


def pytest_collection_finish() -> None:
    """Leaves what is loaded by now out of garbage collection. Beside so large a heap Python hardly
    ever collects what is older, and a board is free only when a test's session, which is part of a
    cycle, is collected."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def onnx_models() -> ModuleType:
    """The script that makes small ONNX models, tests/tuner/onnx_models.py."""
    path = Path(__file__).parent / "tuner" / "onnx_models.py"
    spec = importlib.util.spec_from_file_location("tunebook_test_onnx_models", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def eventually() -> Callable[..., None]:
    """Polls until a condition holds; its failure means never, not slow."""

    def wait(holds: Callable[[], bool], what: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"never came true: {what}"
            time.sleep(0.02)

    return wait


@pytest.fixture(scope="session")
def is_gone() -> Callable[[int], bool]:
    """Whether no process of that number runs; one that only waits to be reaped is gone."""

    def check(pid: int) -> bool:
        try:
            return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    return check


def _loaded_files() -> list[tuple[str, Path]]:
    return [
        (name, Path(file).resolve())
        for name, module in list(sys.modules.items())
        if (file := getattr(module, "__file__", None)) and name != "__main__"
    ]


def pytest_sessionfinish(session: pytest.Session) -> None:
    wrong = modules_without_prefix(session.config.rootpath)
    if wrong:
        print("\nloaded without the prefix 'tunebook.':", *wrong, sep="\n  ", file=sys.stderr)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
