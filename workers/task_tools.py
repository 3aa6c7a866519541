"""What a worker keeps per task while it runs: program, search, and the unscheduled library."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from tunebook.cache.errors import TunebookError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Candidate, Measurement, Record
from tunebook.cache.store import Store, TaskState
from tunebook.cache.targets import Target
from tunebook.tuner.build_pool import BuildPool
from tunebook.tuner.cost_model import CostModel, sample_of
from tunebook.tuner.llvm_targets import tvm_target
from tunebook.tuner.one_line import one_line
from tunebook.tuner.program import Program, describe
from tunebook.tuner.search import TaskSearch
from tunebook.tuner.trials import BuildFailure, BuildRequest, BuiltLibrary

_log = logging.getLogger(__name__)
_TRAINING_RECORDS = 2000
# What starting a parallel loop costs at most, as seen on boards of four cores and on servers.
_WAKING_THREADS_SECONDS = 20e-6


class TaskTools:
    """Programs, searches and unscheduled libraries by key, each made when first asked for."""

    def __init__(
        self,
        store: Store,
        builds: BuildPool,
        target: Target,
        compiler: str,
        *,
        emulated: bool,
        threads: int,
        seed: int,
    ) -> None:
        self._store = store
        self._emulated = emulated
        self._builds = builds
        self._tvm_target = tvm_target(target)
        self._threads = threads
        self._seed = seed
        self._programs: dict[ScheduleKey, Program] = {}
        self._searches: dict[ScheduleKey, TaskSearch] = {}
        self._references: dict[ScheduleKey, BuiltLibrary | None] = {}
        # The cost model is one for all tasks, and not made for two threads at once.
        self._lock = threading.Lock()
        self._model = CostModel(threads=threads, seed=seed)
        earlier = store.training_records(
            str(target), compiler, _TRAINING_RECORDS, emulated=emulated
        )
        self._model.learn(sample for record in earlier if (sample := sample_of(record)))

    def program(self, key: ScheduleKey) -> Program:
        """The task's program."""
        if key not in self._programs:
            self._programs[key] = describe(self._store.workload(key.workload))
        return self._programs[key]

    def build_references(self, keys: Sequence[ScheduleKey]) -> None:
        """Builds the unscheduled programs of these tasks side by side."""
        pending = {
            key: self._builds.submit(BuildRequest(self.program(key).tir, key.target, None))
            for key in keys
            if key not in self._references
        }
        for key, future in pending.items():
            built = future.result()
            if isinstance(built, BuildFailure):
                _log.warning("%s: the unscheduled program does not build: %s", key, built.text)
            self._references[key] = built if isinstance(built, BuiltLibrary) else None

    def reference(self, key: ScheduleKey) -> BuiltLibrary | None:
        """The unscheduled program as a library, or None where it cannot be built."""
        self.build_references([key])
        return self._references[key]

    def propose(self, task: TaskState, count: int) -> list[Candidate]:
        """At most `count` new candidates for a task."""
        key = task.key
        records = [
            record
            for record in self._store.records(key)
            if record.measurement.emulated == self._emulated
        ]
        measured = [record for record in records if record.measurement.seconds is not None]
        measured.sort(key=_seconds)
        known = frozenset(record.candidate.module_hash for record in records)
        unscheduled = [_unscheduled(key)] if _unscheduled_may_win(task) else []
        candidates = [one for one in unscheduled if one.module_hash not in known]
        wanted = count - len(candidates)
        try:
            with self._lock:
                return candidates + self._search(key).propose(wanted, measured, known)
        except TunebookError:
            raise
        except Exception as error:  # TVM raises whatever it likes, and only this task is at fault
            _log.warning("%s: the search failed: %s", key, one_line(error))
            return candidates

    def learn(self, key: ScheduleKey, results: list[tuple[Candidate, Measurement]]) -> None:
        """Feeds a round's results to the cost model."""
        records = [Record(0, key, *result, verified=False) for result in results]
        with self._lock:
            self._model.learn(sample for record in records if (sample := sample_of(record)))

    def _search(self, key: ScheduleKey) -> TaskSearch:
        if key not in self._searches:
            seed = self._seed + int(key.workload_hash[:8], 16)
            self._searches[key] = TaskSearch(
                self.program(key).tir,
                self._tvm_target,
                self._model,
                threads=self._threads,
                seed=seed,
            )
        return self._searches[key]


def _unscheduled(key: ScheduleKey) -> Candidate:
    """The program as it was split: no instruction, no decision."""
    return Candidate("[[], []]", key.workload_hash)


def _unscheduled_may_win(task: TaskState) -> bool:
    """Whether to try the program as it is: the search knows only parallel schedules, and waking
    the threads takes longer than many a small program."""
    untuned, best = task.untuned_seconds, task.best_seconds
    if untuned is None:
        return False
    return untuned < _WAKING_THREADS_SECONDS or (best is not None and best > untuned)


def _seconds(record: Record) -> float:
    return record.measurement.seconds or 0.0
