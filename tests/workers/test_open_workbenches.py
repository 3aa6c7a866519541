"""The workbenches of a worker that runs for weeks, with this machine as its board."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "cache"))

from cache_samples import conv, measure, success

from tunebook.cache.boards.drift import FEWEST_RUNS
from tunebook.cache.store import BoardPeak, Store
from tunebook.tuner.llvm_targets import host_target
from tunebook.workers.boards.board_classes import board_classes
from tunebook.workers.fleet.open_workbenches import OpenWorkbench, OpenWorkbenches
from tunebook.workers.fleet.shared_builds import SharedBuilds
from tunebook.workers.rounds.round_watch import RoundWatch
from tunebook.workers.rounds.workbench import WorkerSettings, open_build_pool

pytestmark = pytest.mark.slow


TARGET = host_target()


class Benches:
    """The workbenches of one lane, each used twice at most; `use` gives the one that it was."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._settings = WorkerSettings(processes=1)
        self._builds = SharedBuilds(lambda: open_build_pool(self._settings))
        (self._here,) = board_classes(["local"], None)
        watch = RoundWatch(lambda _: None, lambda _: False, threading.Event())
        self._open = OpenWorkbenches(store, self._builds, self._settings, watch, most_uses=2)

    def use(self) -> OpenWorkbench:
        with self._open.use(self._here, TARGET) as one:
            return one

    def close(self) -> None:
        self._open.close()
        self._builds.close()
        self._here.close()


@pytest.fixture
def benches(tmp_path: Path) -> Iterator[Benches]:
    with Store.open(str(tmp_path / "tunebook.db")) as store:
        store.save_board_peak("local", str(TARGET), BoardPeak(1e15, 1e15))
        with closing(Benches(store)) as found:
            yield found


def test_a_workbench_is_opened_anew_after_so_many_uses(benches: Benches) -> None:
    used = [benches.use() for _ in range(3)]
    assert used[0] is used[1]
    assert used[2] is not used[0]


def test_a_workbench_is_opened_anew_when_records_become_suspect(benches: Benches) -> None:
    """Its search may have learnt from them."""
    before = benches.use()
    make_suspect(benches.store)
    assert benches.use() is not before


def make_suspect(store: Store) -> None:
    """A board measures well, then something, and then has drifted."""
    for _ in range(FEWEST_RUNS):
        store.boards.note_reference("lab", "board-1", [1e-3], {})
    measure(store, conv(), {"a": replace(success(1e-3), board_class="lab")})
    for _ in range(2):
        store.boards.note_reference("lab", "board-1", [2e-3], {})
