"""The search for candidates of one task: MetaSchedule's evolutionary search, a round at a time.

What was measured comes from the store each time, so that a worker which takes over goes on where
its predecessor stopped. All that a search keeps between rounds are its random numbers, and what it
found promising and did not propose, which another finds again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from tunebook.cache.records import Candidate, Record
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.one_line import one_line
from tunebook.tuner.search.code_length import code_length
from tunebook.tuner.search.cost_model import CostModel, Seen
from tunebook.tuner.traces.replay import replay
from tunebook.tuner.traces.trace_steps import trace_text
from tunebook.tuner.tvm_compat import load_cpu_intrinsics, silent_native_stderr

_log = logging.getLogger(__name__)

# Replaying mutated traces and taking their features is where a search's time goes. On a 3x3
# convolution TVM's population of 512 and 4 generations take four times as long as these, and find
# nothing faster (tests/benchmarks/throughput.py).
LARGEST_POPULATION = 128
_SMALLEST_POPULATION = 16
_POPULATION_PER_CANDIDATE = 5
_GENERATIONS = 2
# Of a first generation: the fastest that were measured, and what the last search left and promises
# most, whose features are known. The rest is sampled afresh.
_MEASURED_SHARE = 0.2
_SURVIVING_SHARE = 0.6
# Candidates asked for at least beyond the round's size: some turn out to be known, or overlong.
_SPARE = 2
# Elements written in a row: code that writes more fits no processor's instruction cache (4 elements
# an instruction of 4 bytes, and as many that read: 32 KB), takes seconds to compile, and was never
# among the fast.
LONGEST_CODE = 16_384
# Fewer fresh ones than this that replay are no space, unless there is something to evolve.
_FEWEST_SAMPLED = 4
_FEWEST_BESIDE = 1
_ANY_FAILURES = 3


@derived_object
class _MeasuredTraces(ms.database.PyDatabase):  # type: ignore[misc]
    """Feeds the best measured traces of this workload into the search's population."""

    def __init__(self, workload: Any, records: list[Any]) -> None:
        super().__init__()
        self._workload = workload
        self._records = records

    def has_workload(self, mod: Any) -> bool:
        return True

    def commit_workload(self, mod: Any) -> Any:
        return self._workload

    def get_top_k(self, workload: Any, top_k: int) -> list[Any]:
        return self._records[:top_k]

    def __len__(self) -> int:
        return len(self._records)


class TaskSearch:
    """Proposes candidates for one workload on one target.

    `threads` is how many the search may use, `seed` what makes it repeatable; `population` how many
    candidates a generation has at most.
    """

    def __init__(
        self,
        tir: str,
        target: Any,
        model: CostModel,
        *,
        threads: int,
        seed: int,
        population: int = LARGEST_POPULATION,
    ):
        load_cpu_intrinsics()
        self._mod = tvm.ir.load_json(tir)
        self._workload = ms.database.Workload(self._mod)
        self._target = target
        self._model = model
        self._threads = threads
        self._seed = seed
        self._population = population
        self._rounds = 0
        self._survivors: dict[str, Seen] = {}
        self._spaces: list[Any] | None = None
        # By record; None for one that does not replay.
        self._replayed: dict[int, Any] = {}

    def propose(
        self, count: int, measured: Sequence[Record], known: frozenset[str]
    ) -> list[Candidate]:
        """At most `count` candidates whose modules are not in `known` and differ among each other,
        those that take longest to compile first: no process is to wait for another's last one.

        `measured` are this task's successful records, fastest first. Fewer than `count`, also
        none, means that the search finds nothing new.
        """
        if count <= 0:
            return []
        self._survivors = {n: one for n, one in self._survivors.items() if n not in known}
        seen = dict(self._survivors)
        self._model.start_search(_scores(measured, known), seen)
        found: dict[str, Any] = {}
        for sch in self._generate(count, measured, len(known)):
            name = module_hash(sch.mod)
            if name not in known:
                found.setdefault(name, sch)
        fresh = _preferred(found, count)
        self._keep_survivors({name: one for name, one in seen.items() if name not in fresh})
        longest_first = sorted(
            fresh.items(), key=lambda item: _steps_unrolled(item[1]), reverse=True
        )
        return [Candidate(trace_text(sch), name) for name, sch in longest_first]

    def _generate(self, wanted: int, measured: Sequence[Record], known: int) -> list[Any]:
        population = _population(wanted, self._population)
        # A model that has learnt nothing ranks by chance, so there is nothing to evolve towards.
        generations = _GENERATIONS if self._model.trained else 0
        with silent_native_stderr():
            best = self._replay(measured[: int(population * _MEASURED_SHARE)])
            database = _MeasuredTraces(self._workload, best + self._surviving(population))
            context = self._context(population, generations, fed=len(database) > 0)
            if self._spaces is None:
                self._spaces = list(context.generate_design_space())
            # What is known may be among the best, and is left out of what is proposed.
            asked = wanted + max(_SPARE, wanted // 2) + min(known, population)
            context.pre_tuning(asked, asked, self._spaces, database, self._model.tvm_model)
            found = context.generate_measure_candidates()
            context.post_tuning()
        return [] if found is None else [candidate.sch for candidate in found]

    def _keep_survivors(self, left: dict[str, Seen]) -> None:
        """Of all that was seen and is not proposed that which promises most, best first."""
        names = self._model.most_promising(left, int(self._population * _SURVIVING_SHARE))
        self._survivors = {name: left[name] for name in names}

    def _surviving(self, population: int) -> list[Any]:
        """TVM's form of records of what the last search left, best first."""
        return [
            ms.database.TuningRecord(one.trace, self._workload, [1.0], self._target)
            for one in list(self._survivors.values())[: int(population * _SURVIVING_SHARE)]
        ]

    def _replay(self, records: Sequence[Record]) -> list[Any]:
        """TVM's form of records; one that does not replay is told of once, and left out."""
        for record in records:
            if record.id in self._replayed:
                continue
            try:
                trace = replay(self._mod, record.candidate.trace).trace
            except Exception as error:  # TVM raises whatever it likes
                _log.warning("record %d is left out of the search: %s", record.id, one_line(error))
                self._replayed[record.id] = None
                continue
            seconds = [record.measurement.seconds]
            self._replayed[record.id] = ms.database.TuningRecord(
                trace, self._workload, seconds, self._target
            )
        found = [self._replayed[record.id] for record in records]
        return [one for one in found if one is not None]

    def _context(self, population: int, generations: int, *, fed: bool) -> Any:
        self._rounds += 1
        return ms.TuneContext(
            mod=self._mod,
            target=self._target,
            space_generator="post-order-apply",
            search_strategy=ms.search_strategy.EvolutionarySearch(
                population_size=population,
                init_measured_ratio=_MEASURED_SHARE + _SURVIVING_SHARE,
                init_min_unmeasured=_FEWEST_BESIDE if fed else _FEWEST_SAMPLED,
                max_fail_count=_ANY_FAILURES,
                genetic_num_iters=generations,
            ),
            rand_state=1 + (self._seed * 7919 + self._rounds * 104729) % (2**31 - 2),
            num_threads=self._threads,
        )


def _scores(measured: Sequence[Record], known: frozenset[str]) -> dict[str, float]:
    """What the model is told of what is known: how fast each is beside the fastest, 0 where no
    time of it counts. The fast ones have the most children."""
    scores = dict.fromkeys(known, 0.0)
    times = {
        record.candidate.module_hash: record.measurement.seconds
        for record in measured
        if record.measurement.seconds
    }
    best = min(times.values(), default=0.0)
    return scores | {name: best / seconds for name, seconds in times.items()}


def _preferred(found: dict[str, Any], count: int) -> dict[str, Any]:
    """The first of what was found, by what it promises; of the overlong only what is needed to have
    so many."""
    # Sorting leaves the rest in its order.
    names = sorted(found, key=lambda name: code_length(found[name].mod["main"]) > LONGEST_CODE)
    return {name: found[name] for name in names[:count]}


def _steps_unrolled(schedule: Any) -> int:
    """How many steps loops are unrolled up to, which is what most of all makes code long: on a CPU
    the only choice among given numbers."""
    return max(
        (
            int(instruction.attrs[0][int(decision)])
            for instruction, decision in schedule.trace.decisions.items()
            if str(instruction.kind.name) == "SampleCategorical"
        ),
        default=0,
    )


def _population(wanted: int, largest: int) -> int:
    fewest = max(_SMALLEST_POPULATION, wanted)
    return max(fewest, min(largest, _POPULATION_PER_CANDIDATE * wanted))
