"""What works for one job of a local command, whether it searches or recovers."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from tunebook.cache.store import ClaimedRound, Store
from tunebook.cache.targets import Target
from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.rounds.progress import ProgressListener, ProgressMeter
from tunebook.workers.rounds.round_watch import RoundWatch
from tunebook.workers.rounds.workbench import WorkerSettings


class JobWorker:
    """Works for one job on one board class, and tells a listener how far it is."""

    def __init__(
        self,
        store: Store,
        target: Target,
        board: BoardAddress,
        settings: WorkerSettings,
        listener: ProgressListener,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._target = target
        self._board = board
        self._settings = settings
        self._listener = listener
        self._monotonic = monotonic
        self._name = str(os.getpid())
        self._stop = threading.Event()

    def _start_meter(self, job_id: int, seconds: float | None = None) -> ProgressMeter:
        return ProgressMeter(self._listener, self._monotonic, self._store.budget(job_id), seconds)

    def _watch(self, meter: ProgressMeter) -> RoundWatch:
        def on_trial(claimed: ClaimedRound) -> None:
            if meter.due:
                self._report(meter, claimed.job_id, claimed.key.op)

        return RoundWatch(on_trial, lambda _: meter.out_of_time, self._stop)

    def _report(self, meter: ProgressMeter, job_id: int, activity: str) -> None:
        meter.report(self._store.budget(job_id), self._store.task_states(job_id), activity)
