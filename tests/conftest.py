"""For all tests: what several folders share, and no module may be loaded under two names.

The folders stand at the root of the tree, so `import cache` can succeed by accident; then each
class exists twice, and `isinstance` and registries fail in places far away.
"""

from __future__ import annotations

import gc
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, settings

# Tests are imported without a package (--import-mode=importlib); these modules are shared by them.
sys.path.insert(0, str(Path(__file__).parent / "servers"))

from local_ports import holding_port
from postgresql_server import PostgresqlServer, postgresql_binaries, running_postgresql
from redis_server import RedisServer, redis_binary, running_redis

# A slow machine, or one that pauses, is no fault of what is tested.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

PACKAGES = ("cache", "tuner", "workers", "service")
# The longest first: what runs side by side then ends at about the same time.
_FOLDERS = ("end_to_end/fleet", "end_to_end", "workers", "tuner", "service", "cache", "packaging")
_wrong_names: set[str] = set()


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


def pytest_itemcollected(item: pytest.Item) -> None:
    """Where several processes run tests, each folder is one's: its tests share costly fixtures."""
    item.add_marker(pytest.mark.xdist_group(_folder(item)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _FOLDERS.index(_folder(item)))


def _folder(item: pytest.Item) -> str:
    place = item.path.relative_to(Path(__file__).parent).as_posix()
    return next(folder for folder in _FOLDERS if place.startswith(f"{folder}/"))


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
def postgresql_server() -> Iterator[PostgresqlServer]:
    """A server that lives as long as the session: tests that end it start one of their own."""
    if postgresql_binaries() is None:
        pytest.skip("no PostgreSQL server is installed (no initdb in PATH or /usr/lib/postgresql)")
    with running_postgresql() as server:
        yield server


@pytest.fixture
def postgresql_url(postgresql_server: PostgresqlServer) -> Iterator[str]:
    """A database with our schema and nothing in it."""
    with postgresql_server.database() as url:
        yield url


@pytest.fixture
def empty_postgresql_url(postgresql_server: PostgresqlServer) -> str:
    """A database without any table."""
    return postgresql_server.empty_database()


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    """A server of this test's own, which it may kill, pause and start again."""
    if redis_binary() is None:
        pytest.skip("no Redis is installed (no redis-server or valkey-server in PATH)")
    with running_redis() as server:
        yield server


@pytest.fixture
def patient_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis is not given up where it is only this machine that stands still for a while."""
    from tunebook.cache.live import redis_link
    from tunebook.cache.live.redis_client import Timeouts

    monkeypatch.setattr(redis_link, "Timeouts", lambda: Timeouts(connect=60, answer=60))


@pytest.fixture
def held_port() -> Iterator[int]:
    """A port of 127.0.0.1 at which nobody listens, and that nobody is given meanwhile."""
    with holding_port() as port:
        yield port


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


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the lines that tests give by `record_property("table", (title, line))`, whichever
    process ran them."""
    tables: dict[str, list[dict[str, object]]] = {}
    for report in [one for some in terminalreporter.stats.values() for one in some]:
        for name, told in getattr(report, "user_properties", ()):
            if name == "table" and report.when == "call":
                tables.setdefault(told[0], []).append(told[1])
    for title, lines in tables.items():
        terminalreporter.section(title)
        for row in _aligned([list(lines[0]), *(list(line.values()) for line in lines)]):
            terminalreporter.write_line(row)


def _aligned(rows: Sequence[Sequence[object]]) -> list[str]:
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(str(cell).rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]


def pytest_sessionfinish(session: pytest.Session) -> None:
    _wrong_names.update(modules_without_prefix(session.config.rootpath))
    told: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if told is not None:
        told["wrong_names"] = sorted(_wrong_names)
    elif _wrong_names:
        print("\nloaded without the prefix 'tunebook.':", *sorted(_wrong_names), sep="\n  ")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """One of several processes that run tests has ended; its own exit code would count for
    nothing."""
    _wrong_names.update(getattr(node, "workeroutput", {}).get("wrong_names", ()))
