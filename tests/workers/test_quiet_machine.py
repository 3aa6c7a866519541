"""Two commands on one machine: nothing of ours builds or searches while one of them measures."""

from __future__ import annotations

import threading
from pathlib import Path

from tunebook.workers.boards.quiet_machine import QuietMachine

LONG_SECONDS = 60.0


class _Other(threading.Thread):
    """Another command, with a lock of its own; `began` once it got what it waits for."""

    def __init__(self, folder: Path, kind: str, *, measures_here: bool = True) -> None:
        super().__init__(daemon=True)
        self._machine = QuietMachine(measures_here=measures_here, folder=folder)
        self._kind = kind
        self.began = threading.Event()
        self.start()

    def run(self) -> None:
        with self._machine, getattr(self._machine, self._kind)():
            self.began.set()


def test_nobody_builds_while_another_measures(tmp_path: Path) -> None:
    with QuietMachine(measures_here=True, folder=tmp_path) as machine:
        with machine.measuring():
            builder, measurer = _Other(tmp_path, "working"), _Other(tmp_path, "measuring")
            assert not builder.began.wait(0.3)
            assert not measurer.began.is_set()
        assert builder.began.wait(LONG_SECONDS)
        assert measurer.began.wait(LONG_SECONDS)


def test_a_measurement_waits_for_builds_which_do_not_wait_for_each_other(tmp_path: Path) -> None:
    with QuietMachine(measures_here=True, folder=tmp_path) as machine:
        with machine.working():
            assert _Other(tmp_path, "working").began.wait(LONG_SECONDS)
            measurer = _Other(tmp_path, "measuring")
            assert not measurer.began.wait(0.3)
        assert measurer.began.wait(LONG_SECONDS)


def test_boards_elsewhere_hold_up_nobody(tmp_path: Path) -> None:
    with QuietMachine(measures_here=True, folder=tmp_path) as machine, machine.measuring():
        elsewhere = _Other(tmp_path, "measuring", measures_here=False)
        assert elsewhere.began.wait(LONG_SECONDS)
    assert [path.name for path in tmp_path.iterdir()] == ["this-machine-measures.lock"]


def test_what_can_be_measured_at_any_time_waits_for_nobody(tmp_path: Path) -> None:
    with (
        QuietMachine(measures_here=True, folder=tmp_path) as machine,
        QuietMachine(measures_here=True, folder=tmp_path) as other,
    ):
        with machine.working(), other.measuring_if_quiet() as quiet:
            assert not quiet
        with other.measuring_if_quiet() as quiet:
            assert quiet
            builder = _Other(tmp_path, "working")
            assert not builder.began.wait(0.3)
        assert builder.began.wait(LONG_SECONDS)


def test_boards_elsewhere_are_always_quiet(tmp_path: Path) -> None:
    with (
        QuietMachine(measures_here=True, folder=tmp_path) as machine,
        QuietMachine(measures_here=False, folder=tmp_path) as elsewhere,
        machine.working(),
        elsewhere.measuring_if_quiet() as quiet,
    ):
        assert quiet
