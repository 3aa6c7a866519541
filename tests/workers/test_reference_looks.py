"""Which boards a worker looks at that it does not use: test_drifting_boards.py looks at some."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tunebook.cache.boards.drift import FEWEST_RUNS
from tunebook.cache.queue.fleet import ServedBoard
from tunebook.cache.store import Store
from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.boards.board_classes import BoardClass
from tunebook.workers.fleet.open_workbenches import SharedBuilds
from tunebook.workers.fleet.reference_checks import ReferenceChecks
from tunebook.workers.fleet.reference_looks import ReferenceLooks
from tunebook.workers.rounds.workbench import WorkerSettings, open_build_pool

LAB = "lab"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(tmp_path / "tunebook.db")) as opened:
        yield opened


@pytest.fixture
def looks(store: Store) -> ReferenceLooks:
    builds = SharedBuilds(lambda: open_build_pool(WorkerSettings(processes=1)))
    return ReferenceLooks(
        store, ReferenceChecks(store, builds), threading.Event(), run_timeout=10.0
    )


def a_class(*boards: str, emulated: bool = False, opens_boards: bool = False) -> BoardClass:
    """Boards behind a tracker that is gone."""

    @contextmanager
    def opens() -> Iterator[BoardAddress]:
        yield BoardAddress("127.0.0.1", 1, LAB, emulated=emulated)

    found = BoardClass(
        LAB,
        opens,
        lambda: [ServedBoard(LAB, board, emulated, cores=1) for board in boards],
        lambda _: None,
        on_this_machine=False,
        opens_boards=opens_boards,
    )
    found.look()
    return found


def quarantine(store: Store, board: str) -> None:
    for seconds in (*[1e-3] * FEWEST_RUNS, 2e-3, 2e-3):
        store.boards.note_reference(LAB, board, [seconds], {})


def test_a_class_is_used_while_any_of_its_boards_is_not_in_quarantine(
    store: Store, looks: ReferenceLooks
) -> None:
    lab = a_class("first", "second")
    assert looks.any_usable(lab)
    quarantine(store, "first")
    assert looks.any_usable(lab)
    quarantine(store, "second")
    assert not looks.any_usable(lab)
    assert not looks.any_usable(a_class())


def test_nobody_starts_a_board_to_look_at_it_unless_it_waits_to_come_back(
    store: Store, looks: ReferenceLooks
) -> None:
    ours = a_class("first", opens_boards=True)
    looks.look(ours, idle=True)
    assert not ours.is_open
    quarantine(store, "first")
    # Its tracker is gone, which costs nothing but the look.
    assert not looks.look(ours, idle=False)
    assert ours.is_open


def test_emulated_boards_are_not_looked_at(
    looks: ReferenceLooks, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert not looks.look(a_class("first", emulated=True), idle=True)
    # Their tracker is gone, and nobody has noticed.
    assert "no board is looked at" not in caplog.text
