"""The workbenches of a worker that runs for weeks, with this machine as its board."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tunebook.cache.store import BoardPeak, Store
from tunebook.tuner.llvm_targets import host_target
from tunebook.workers.boards.board_classes import board_classes
from tunebook.workers.fleet.open_workbenches import OpenWorkbenches, SharedBuilds
from tunebook.workers.rounds.round_watch import RoundWatch
from tunebook.workers.rounds.workbench import WorkerSettings, open_build_pool

pytestmark = pytest.mark.slow


def test_a_workbench_is_opened_anew_after_so_many_uses(tmp_path: Path) -> None:
    settings = WorkerSettings(processes=1)
    watch = RoundWatch(lambda _: None, lambda _: False, threading.Event())
    builds = SharedBuilds(lambda: open_build_pool(settings))
    (here,) = board_classes(["local"], None)
    target = host_target()
    with Store.open(str(tmp_path / "tunebook.db")) as store:
        store.save_board_peak("local", str(target), BoardPeak(1e15, 1e15))
        benches = OpenWorkbenches(store, builds, settings, watch, most_uses=2)
        try:
            used = []
            for _ in range(3):
                with benches.use(here, target) as one:
                    used.append(one)
        finally:
            benches.close()
            builds.close()
            here.close()
    assert used[0] is used[1]
    assert used[2] is not used[0]
