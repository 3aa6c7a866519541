"""For all tests: small models, and no module of ours may be loaded under two names.

The folders stand at the root of the tree, so `import cache` can succeed by accident; then each
class exists twice, and `isinstance` and registries fail in places far away.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

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
