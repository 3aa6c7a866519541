"""The emulated board counts instructions where this machine can, and says why where it cannot."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tunebook.cache.errors import BoardError
from tunebook.workers.boards.counting_emulator import QEMU_WITH_PLUGINS, counting_emulator
from tunebook.workers.boards.emulated_sysroot import QEMU, Sysroot, emulated_sysroot
from tunebook.workers.boards.guest_packages import SERVER_MODULE, guest_packages
from tunebook.workers.boards.guest_server import guest_server

CPU = "max"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's cache folder, which is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tunebook"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of which the test decides what is in it, and nothing else is on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.mark.slow
@pytest.mark.emulated
@pytest.mark.skipif(
    any(shutil.which(one) is None for one in (QEMU, QEMU_WITH_PLUGINS, "cc")),
    reason="apt-get install qemu-user-static qemu-user gcc",
)
def test_the_plugin_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = emulated_sysroot().guest_python(CPU)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    emulator = counting_emulator(python)
    (plugin,) = (tmp_path / "tunebook").iterdir()
    assert f"{plugin},descriptor=" in emulator[-1]

    only_qemu = tmp_path / "bin"
    only_qemu.mkdir()
    (only_qemu / QEMU_WITH_PLUGINS).symlink_to(str(shutil.which(QEMU_WITH_PLUGINS)))
    monkeypatch.setenv("PATH", str(only_qemu))
    assert counting_emulator(python)[1:] == emulator[1:]


def test_a_machine_without_an_emulator_that_takes_plugins_is_told_so(programs: Path) -> None:
    with pytest.raises(BoardError, match=r"apt-get install qemu-user$"):
        counting_emulator(["python3"])


def test_a_plugin_that_the_emulator_refuses_is_not_kept(cache: Path, programs: Path) -> None:
    # A fake: no other version of the emulator is to be had on demand.
    _program(programs / QEMU_WITH_PLUGINS, "echo 'Incompatible plugin' >&2; exit 1")
    _program(programs / "cc", "exit 0")
    with pytest.raises(BoardError, match="Incompatible plugin"):
        counting_emulator(["python3"])
    assert list(cache.iterdir()) == []


def test_where_nothing_counts_the_board_goes_by_wall_time_and_says_so(
    cache: Path, programs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _program(programs / QEMU, "exit 0")
    sysroot = Sysroot(Path("/sysroot"), Path("/sysroot/usr/bin/python3"))
    server = guest_server(sysroot, CPU)
    guest = sysroot.command(CPU, guest_packages())
    assert server.command == [*guest, "-m", SERVER_MODULE]
    (record,) = caplog.records
    assert "goes by wall time" in record.message
    assert QEMU_WITH_PLUGINS in record.message


def _program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
