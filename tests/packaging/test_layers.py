"""Imports run downwards only, and each library has its place."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# From the top down; a package may import itself and what stands to the right of it.
LAYERS = ("service", "workers", "tuner", "cache")
# The same of the folders inside a package; words and what holds all together stand beside them.
FOLDERS = {
    "cache": (
        "upkeep",
        "remote",
        "statistics",
        "boards",
        "access",
        "lists",
        "queue",
        "lookup",
        "stored",
        "exchange",
        "untrusted",
        "storage",
        "live",
    ),
    "tuner": (
        "interchange",
        "inside_tvm",
        "builds",
        "trials",
        "recovery",
        "search",
        "traces",
        "splitting",
        "importing",
    ),
    "workers": ("agent", "fleet", "commands", "recovery", "rounds", "boards"),
    "workers/boards": ("server",),
    "service/api": ("routes", "guards", "processes", "lookups", "documents", "problems"),
    "service": ("commands", "dashboard", "api", "plans", "nights"),
}
OF_FOLDERS = [(package, folder) for package, folders in FOLDERS.items() for folder in folders]
HOMES = {
    "sqlalchemy": {"cache"},
    "alembic": {"cache"},
    "psycopg": {"cache"},
    "redis": {"cache"},
    "tvm": {"tuner", "workers"},
    "tvm_ffi": {"tuner", "workers"},
    "onnx": {"tuner"},
    "xgboost": {"tuner"},
    "torch": {"tuner"},
    "typer": {"service"},
    "rich": {"service"},
    "fastapi": {"service"},
    "starlette": {"service"},
    "uvicorn": {"service"},
    "jinja2": {"service"},
    "prometheus_client": {"service"},
    "fsspec": {"cache"},
    "httpx": {"cache", "service"},
}
# What a board runs, with nothing installed but the `board` extra.
BOARD_SIDE = (
    "board_server.py",
    "board_supervisor.py",
    "child_processes.py",
    "guest_packages.py",
    "guest_server.py",
    "host_server.py",
    "tracker.py",
)


def imports(source: str) -> Iterator[str]:
    """All imported modules' full names, also those imported inside functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # Relative ones would hide the direction.
            yield "." * node.level + (node.module or "")
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_of(*files: Path) -> set[tuple[str, str]]:
    return {
        (str(file.relative_to(ROOT)), name)
        for file in files
        for name in imports(file.read_text(encoding="utf-8"))
    }


@pytest.mark.parametrize("package", LAYERS)
def test_a_package_imports_nothing_from_above(package: str) -> None:
    above = LAYERS[: LAYERS.index(package)]
    found = imports_of(*(ROOT / package).rglob("*.py"))
    assert found, f"{package} has no imports at all: the test reads the wrong folder"
    upwards = {
        (file, name)
        for file, name in found
        if name.split(".")[0] == "tunebook" and name.split(".")[1] in above
    }
    assert upwards == set()


@pytest.mark.parametrize(("package", "folders"), FOLDERS.items())
def test_every_folder_has_its_place(package: str, folders: tuple[str, ...]) -> None:
    found = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
    assert found - {"migrations"} == set(folders)


@pytest.mark.parametrize(("package", "folder"), OF_FOLDERS)
def test_a_folder_imports_nothing_from_above(package: str, folder: str) -> None:
    within = f"tunebook.{package.replace('/', '.')}."
    folders = FOLDERS[package]
    above = {f"{within}{one}" for one in folders[: folders.index(folder)]}
    found = imports_of(*(ROOT / package / folder).rglob("*.py"))
    assert found, f"{package}/{folder} has no imports at all: the test reads the wrong folder"
    depth = within.count(".") + 1
    upwards = {(file, name) for file, name in found if ".".join(name.split(".")[:depth]) in above}
    assert upwards == set()


@pytest.mark.parametrize("package", LAYERS)
def test_our_own_modules_are_imported_by_their_full_name(package: str) -> None:
    bare = {
        (file, name)
        for file, name in imports_of(*(ROOT / package).rglob("*.py"))
        if name.startswith(".") or name.split(".")[0] in LAYERS
    }
    assert bare == set()


@pytest.mark.parametrize(("library", "homes"), HOMES.items())
def test_a_library_is_imported_only_where_it_belongs(library: str, homes: set[str]) -> None:
    strays = {
        (file, name)
        for package in set(LAYERS) - homes
        for file, name in imports_of(*(ROOT / package).rglob("*.py"))
        if name.split(".")[0] == library
    }
    assert strays == set()


def test_redis_is_spoken_to_in_one_folder_only() -> None:
    found = imports_of(*(ROOT / "cache").rglob("*.py"))
    speaking = {Path(file).parent for file, name in found if name.split(".")[0] == "redis"}
    assert speaking == {Path("cache/live")}


def test_what_runs_on_a_board_needs_no_tuner() -> None:
    files = [ROOT / "workers" / "boards" / name for name in BOARD_SIDE]
    files += (ROOT / "workers" / "agent").glob("*.py")
    files += (ROOT / "workers" / "boards" / "server").glob("*.py")
    needing = {(f, name) for f, name in imports_of(*files) if name.startswith("tunebook.tuner")}
    assert needing == set()


def test_the_board_server_stands_alone() -> None:
    """The emulated guest runs it with nothing but TVM's runtime, and the packages around it."""
    boards = ROOT / "workers" / "boards"
    around = (ROOT / "workers" / "__init__.py", boards / "__init__.py")
    found = imports_of(boards / "board_server.py", *(boards / "server").rglob("*.py"), *around)
    allowed = {"tvm", "tvm_ffi", *sys.stdlib_module_names}
    own = "tunebook.workers.boards.server."
    assert any(name.startswith(own) for _, name in found), "it reads the wrong files"
    others = {(f, n) for f, n in found if n.split(".")[0] not in allowed and not n.startswith(own)}
    assert others == set()


@pytest.mark.parametrize(
    "program",
    [
        "import tunebook.cache",
        "import tunebook.cache.store, tunebook.cache.keys, tunebook.cache.misses",
        "run('--help')",
        "run('serve', '--help')",
        "import tunebook.service.app",
        "run('db', 'upgrade', '--db', 'sqlite:///' + sys.argv[1])",
    ],
)
def test_what_needs_no_tvm_does_not_load_it(program: str, tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "def run(*arguments):\n"
        "    from tunebook.service.cli import main\n"
        "    sys.argv[1:], code = arguments, None\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as stop:\n"
        "        code = stop.code\n"
        "    assert not code, code\n"
        f"{program}\n"
        "print('loaded:', sorted({'tvm', 'onnx', 'xgboost'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "book.db")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded: []"
