"""The guest finds the board server in a folder that holds Tunebook's processes and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tunebook.cache.errors import BoardError
from tunebook.workers.boards.guest_packages import SERVER_MODULE, guest_packages


def test_the_server_runs_from_there_where_tunebook_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert guest_packages() == guest_packages(), "a second command finds what the first one made"
    # Our own site-packages, and not what their .pth files add to them: those name this tree.
    site_packages = [one for one in sys.path if one.endswith("site-packages")]
    paths = os.pathsep.join([str(guest_packages()), *site_packages])
    program = (
        "import runpy, sys; sys.argv[1:] = ['--help']\n"
        "try:\n"
        f"    runpy.run_module({SERVER_MODULE!r}, run_name='__main__')\n"
        "finally:\n"
        "    others = {one.__spec__.origin for name, one in sys.modules.items()\n"
        "              if name.startswith('tunebook.') and one.__spec__}\n"
        "    print(*others, sep='\\n', file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "--tracker HOST:PORT" in done.stdout
    workers = str(guest_packages() / "tunebook" / "workers")
    imported = [line for line in done.stderr.splitlines() if line.endswith(".py")]
    assert imported
    assert [path for path in imported if not path.startswith(workers)] == []


def test_a_place_where_it_cannot_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(BoardError, match=f"{tmp_path}/file.*XDG_CACHE_HOME"):
        guest_packages()
