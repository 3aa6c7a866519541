"""What a round measures: candidates for a task, from near workloads first and then the search."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Protocol
from zlib import crc32

from tunebook.cache.errors import TunebookError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Candidate, Measurement, Record, Source
from tunebook.cache.store import Store, TaskState
from tunebook.cache.targets import Target
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.llvm_targets import tvm_target
from tunebook.tuner.one_line import one_line
from tunebook.tuner.search.cost_model import CostModel, sample_of
from tunebook.tuner.search.search import LARGEST_POPULATION, TaskSearch
from tunebook.workers.rounds.log_members import members_of
from tunebook.workers.rounds.measured_records import measured_here, modules_of
from tunebook.workers.rounds.near_candidates import NearCandidates
from tunebook.workers.rounds.programs import Programs
from tunebook.workers.rounds.workbench import Workbench, WorkerSettings

_log = logging.getLogger(__name__)
_TRAINING_RECORDS = 2000
# What starting a parallel loop costs at most, as seen on boards of four cores and on servers.
_WAKING_THREADS_SECONDS = 20e-6
# The search's population where the board waits for it, since both are of this machine: half of the
# time, and on a 3x3 convolution nothing measurably slower found (tests/benchmarks/throughput.py).
_POPULATION_ALONE = 64
# Adapted near traces that a task without trials measures before it searches.
_WARM_START_TRIALS = 8


class Proposer(Protocol):
    """Where the candidates of rounds come from."""

    def propose(self, task: TaskState, count: int) -> list[Candidate]:
        """At most `count` candidates that were not measured yet."""
        ...

    def learn(self, key: ScheduleKey, results: list[tuple[Candidate, Measurement]]) -> None:
        """What became of them."""
        ...


class SearchProposer:
    """Searches each task with one cost model; a task without trials starts from near workloads."""

    def __init__(
        self,
        store: Store,
        programs: Programs,
        target: Target,
        compiler: str,
        *,
        emulated: bool,
        threads: int,
        seed: int,
        population: int,
    ) -> None:
        self._store = store
        self._programs = programs
        self._emulated = emulated
        self._tvm_target = tvm_target(target)
        self._threads = threads
        self._seed = seed
        self._population = population
        self._near = NearCandidates(store, emulated=emulated, seed=seed)
        self._warm: dict[ScheduleKey, list[Candidate]] = {}
        self._searches: dict[ScheduleKey, TaskSearch] = {}
        # The cost model is one for all tasks, and not made for two threads at once.
        self._lock = threading.Lock()
        self._model = CostModel(threads=threads, seed=seed)
        earlier = store.training_records(
            str(target), compiler, _TRAINING_RECORDS, emulated=emulated
        )
        self._model.learn(sample for record in earlier if (sample := sample_of(record)))

    @classmethod
    def on(
        cls, bench: Workbench, store: Store, target: Target, settings: WorkerSettings
    ) -> SearchProposer:
        """One for the programs of a workbench."""
        return cls(
            store,
            bench.programs,
            target,
            compiler_text(),
            emulated=bench.board.emulated,
            threads=settings.processes,
            seed=settings.seed,
            population=_POPULATION_ALONE if bench.board.shares_host else LARGEST_POPULATION,
        )

    def propose(self, task: TaskState, count: int) -> list[Candidate]:
        """At most `count` new candidates. A task that gives less than half of them is exhausted."""
        records = measured_here(self._store, task.key, emulated=self._emulated)
        known = modules_of(records)
        candidates: list[Candidate] = []
        for candidate in self._before_searching(task, frozenset(known)):
            if candidate.module_hash not in known and len(candidates) < count:
                known.add(candidate.module_hash)
                candidates.append(candidate)
        candidates += self._searched(task.key, count - len(candidates), records, frozenset(known))
        if len(candidates) * 2 < count:
            self._store.set_exhausted(task.id)
        return candidates

    def learn(self, key: ScheduleKey, results: list[tuple[Candidate, Measurement]]) -> None:
        """Feeds a round's results to the cost model."""
        records = [Record(0, key, *result, verified=False) for result in results]
        with self._lock:
            self._model.learn(sample for record in records if (sample := sample_of(record)))

    def _before_searching(self, task: TaskState, known: frozenset[str]) -> list[Candidate]:
        unscheduled = [_unscheduled(task.key)] if _unscheduled_may_win(task) else []
        return unscheduled + self._warm_start(task, known)

    def _warm_start(self, task: TaskState, known: frozenset[str]) -> list[Candidate]:
        if task.key not in self._warm:
            near = self._near.near(task.key) if task.trials == 0 else ()
            self._warm[task.key] = self._near.adapted(
                task.key, near, Source.WARM_START, _WARM_START_TRIALS, known
            )
        return self._warm[task.key]

    def _searched(
        self, key: ScheduleKey, count: int, records: Sequence[Record], known: frozenset[str]
    ) -> list[Candidate]:
        measured = [
            record
            for record in records
            if record.measurement.seconds is not None and not record.suspect
        ]
        measured.sort(key=_seconds)
        try:
            with self._lock:
                return self._search(key).propose(count, measured, known)
        except TunebookError:
            raise
        except Exception as error:  # TVM raises whatever it likes, and only this task is at fault
            _log.warning("%s: the search failed: %s", key, one_line(error), extra=members_of(key))
            return []

    def _search(self, key: ScheduleKey) -> TaskSearch:
        if key not in self._searches:
            # Not by the hash: a task draws the same numbers whatever its constants and compiler.
            seed = self._seed + crc32(f"{key.op} {key.buffers}".encode())
            self._searches[key] = TaskSearch(
                self._programs.program(key).tir,
                self._tvm_target,
                self._model,
                threads=self._threads,
                seed=seed,
                population=self._population,
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
