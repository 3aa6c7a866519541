"""A worker that tunes without TVM: it splits models into convolutions, and says what they take.

It stands in for the real one, which tests/end_to_end uses, so that what a night does about the
outcomes of its jobs can be tested in seconds.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType

from cache_samples import COMPILER, candidates, conv, success

from tunebook.cache.errors import LeaseLostError
from tunebook.cache.queue.fleet import ServedBoard
from tunebook.cache.queue.submissions import ClaimedStage
from tunebook.cache.records import Model, Task, Workload
from tunebook.cache.store import RoundProposal, Store

BOARD_CLASS = "rpi4"
# Trials of a round, each faster than all before.
TRIALS = 4
SLOWEST = 4e-3
UNTUNED = 8e-3


def workload_of(digest: str) -> Workload:
    """What a model is split into."""
    return conv(program=digest)


class StandInWorker:
    """Works on a store's jobs from entering to leaving: a round of each in turn, until their budget
    is spent. `fails` has the log by the digest of each model that cannot be split; `misses` holds
    digests of models whose records stay unverified; `finds_nothing` ends each search at once."""

    def __init__(
        self,
        store: Store,
        *,
        fails: dict[str, str] | None = None,
        misses: frozenset[str] = frozenset(),
        finds_nothing: bool = False,
        cores: int = 4,
    ) -> None:
        self._store = store
        self._fails = fails or {}
        self._misses = misses
        self._finds_nothing = finds_nothing
        self._boards = [ServedBoard(BOARD_CLASS, "board-1", emulated=False, cores=cores)]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> StandInWorker:
        self._announce()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join()
        self._store.fleet.leave("stand-in")

    def _announce(self) -> None:
        self._store.fleet.announce("stand-in", self._boards, "idle", COMPILER)

    def _work(self) -> None:
        while not self._stopping.is_set():
            self._announce()
            for stage in iter(self._claim, None):
                if stage.stage == "split":
                    self._split(stage)
                else:
                    self._store.queue.finish_recovery(stage.job_id, stage.epoch)
            for job in self._store.queue.searching([BOARD_CLASS]):
                self._search(job.job_id, job.request.digest)
            self._store.queue.end_spent()
            time.sleep(0.05)

    def _claim(self) -> ClaimedStage | None:
        return self._store.queue.claim_stage("stand-in", ["split", "recover"], [BOARD_CLASS])

    def _split(self, stage: ClaimedStage) -> None:
        wish = stage.request
        if wish.digest in self._fails:
            log = self._fails[wish.digest]
            self._store.queue.fail_stage(stage.job_id, stage.epoch, "it is no ONNX model", log)
            return
        shapes = wish.shapes or "input=1,64,56,56"
        tasks = (Task(workload_of(wish.digest), 2),)
        model = Model(wish.digest, shapes, wish.target, COMPILER, wish.choices, tasks)
        saved = self._store.save_model(model)
        self._store.queue.finish_split(stage.job_id, stage.epoch, saved)

    def _search(self, job_id: int, digest: str) -> None:
        (task,) = self._store.task_states(job_id)
        self._store.set_untuned_seconds(task.id, UNTUNED)
        if self._finds_nothing:
            self._store.set_exhausted(task.id)
            return
        self._store.propose_rounds(job_id, [RoundProposal(task.id, TRIALS, 1.0)])
        claimed = self._store.claim_round("stand-in", job_id)
        if claimed is not None:
            self._measure(claimed.id, claimed.epoch, task.trials, digest)

    def _measure(self, round_id: int, epoch: int, earlier: int, digest: str) -> None:
        names = [f"module-{earlier + number}" for number in range(TRIALS)]
        try:
            slots = self._store.store_candidates(round_id, epoch, candidates(*names))
            for slot in slots:
                seconds = SLOWEST / (1 + earlier + slot.number)
                result = self._store.store_result(round_id, epoch, slot.number, success(seconds))
                if digest not in self._misses:
                    self._store.mark_verified(result.record_id)
            self._store.finish_round(round_id, epoch)
        except LeaseLostError:
            pass
