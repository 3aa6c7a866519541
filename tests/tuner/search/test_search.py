"""Candidates of one task, proposed a round at a time."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.s_tir import Schedule, Trace

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Candidate, Measurement, Record, Task
from tunebook.cache.targets import Target
from tunebook.cache.untrusted.traces import check_trace
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.llvm_targets import tvm_target
from tunebook.tuner.search.code_length import code_length
from tunebook.tuner.search.cost_model import CostModel, Sample
from tunebook.tuner.search.search import TaskSearch
from tunebook.tuner.splitting.prepare import PreparedModule
from tunebook.tuner.splitting.split import split

pytestmark = pytest.mark.slow

NOTHING: frozenset[str] = frozenset()
# Of a buffer store, as the cost model sees it.
FEATURES = 164


@pytest.fixture(scope="module")
def tasks(prepared: Callable[[str], PreparedModule]) -> dict[str, Task]:
    """rnet's tasks by op; of several the largest."""
    ordered = sorted(split(prepared("rnet")), key=lambda task: task.workload.flops)
    return {task.workload.key.op: task for task in ordered}


def _search(task: Task, host: Target, seed: int = 1) -> TaskSearch:
    model = CostModel(threads=2, seed=seed)
    return TaskSearch(task.workload.tir, tvm_target(host), model, threads=2, seed=seed)


def _measured(key: ScheduleKey, candidate: Candidate, seconds: float, number: int = 1) -> Record:
    return Record(number, key, candidate, Measurement((seconds,)), verified=False)


def test_every_candidate_replays_to_the_module_it_names(
    tasks: dict[str, Task], host: Target
) -> None:
    task = tasks["conv2d+add+prelu"]
    candidates = _search(task, host).propose(6, [], NOTHING)
    assert len(candidates) == 6
    for candidate in candidates:
        check_trace(candidate.trace)
        assert module_hash(_replayed(task, candidate)) == candidate.module_hash


def test_no_module_is_proposed_twice(tasks: dict[str, Task], host: Target) -> None:
    search = _search(tasks["conv2d+add+prelu"], host)
    known: set[str] = set()
    for _ in range(3):
        names = [one.module_hash for one in search.propose(8, [], frozenset(known))]
        assert len(names) == len(set(names)) == 8
        assert not known & set(names)
        known |= set(names)


def test_what_is_unrolled_most_comes_first(tasks: dict[str, Task], host: Target) -> None:
    """It takes longest to compile, and no process is to wait for another's last one."""
    found = _search(tasks["conv2d+add+prelu"], host).propose(16, [], NOTHING)
    unrolled = [_unrolled(one) for one in found]
    assert len(set(unrolled)) > 1
    assert unrolled == sorted(unrolled, reverse=True)


@pytest.mark.parametrize("longest", [0, 2000, 1_000_000])
def test_the_overlong_are_proposed_only_where_there_is_nothing_else(
    tasks: dict[str, Task], host: Target, monkeypatch: pytest.MonkeyPatch, longest: int
) -> None:
    seen: dict[str, int] = {}

    def length(function: Any) -> int:
        return seen.setdefault(str(function), code_length(function))

    monkeypatch.setattr("tunebook.tuner.search.search.code_length", length)
    monkeypatch.setattr("tunebook.tuner.search.search.LONGEST_CODE", longest)
    task = tasks["conv2d+add+prelu"]
    found = _search(task, host).propose(12, [], NOTHING)
    assert len(found) == 12 < len(seen)
    lengths = [seen[str(_replayed(task, one)["main"])] for one in found]
    short_ones = [one for one in seen.values() if one <= longest]
    assert len([one for one in lengths if one <= longest]) == min(len(short_ones), 12)


def _replayed(task: Task, candidate: Candidate) -> tvm.IRModule:
    schedule = Schedule(tvm.ir.load_json(task.workload.tir))
    Trace.apply_json_to_schedule(json.loads(candidate.trace), schedule)
    return schedule.mod


def _unrolled(candidate: Candidate) -> int:
    """The decision on how many steps are unrolled; what it chooses from is ascending."""
    instructions, decisions = json.loads(candidate.trace)
    decided = dict(map(tuple, decisions))
    return max(
        decided[number]
        for number, (kind, *_) in enumerate(instructions)
        if kind == "SampleCategorical"
    )


def test_a_successor_proposes_nothing_that_its_predecessor_measured(
    tasks: dict[str, Task], host: Target
) -> None:
    task = tasks["conv2d+add+prelu"]
    first = _search(task, host, seed=4).propose(8, [], NOTHING)
    known = frozenset(one.module_hash for one in first)
    again = _search(task, host, seed=4).propose(8, [], known)
    assert len(again) == 8
    assert not known & {one.module_hash for one in again}


def test_what_was_measured_fast_has_children(tasks: dict[str, Task], host: Target) -> None:
    """Of one that was a thousand times as fast as all others, most of what is proposed differs in a
    decision or two."""
    task = tasks["conv2d+add+prelu"]
    key = task.workload.key.on(str(host))
    model = _pessimist()
    search = TaskSearch(task.workload.tir, tvm_target(host), model, threads=2, seed=1)
    first = search.propose(24, [], NOTHING)
    times = [1e-6] + [1e-3] * 23
    records = [
        _measured(key, one, seconds, number)
        for number, (one, seconds) in enumerate(zip(first, times, strict=True))
    ]
    found = search.propose(24, records, frozenset(one.module_hash for one in first))
    near = [one for one in found if len(_decisions(one) ^ _decisions(first[0])) <= 4]
    assert len(found) == 24
    assert len(near) >= 12


def test_what_is_known_and_fast_does_not_crowd_out_what_is_new(
    tasks: dict[str, Task], host: Target
) -> None:
    """A round of which less than half is found would count as the end of the space."""
    task = tasks["conv2d+add+prelu"]
    key = task.workload.key.on(str(host))
    search = TaskSearch(task.workload.tir, tvm_target(host), _pessimist(), threads=2, seed=1)
    records: list[Record] = []
    for _ in range(6):
        known = frozenset(one.candidate.module_hash for one in records)
        found = search.propose(12, records, known)
        assert len(found) == 12
        first = len(records)
        records += [_measured(key, one, 1e-6, first + i) for i, one in enumerate(found)]


def test_what_promised_most_and_was_not_measured_lives_on(
    tasks: dict[str, Task], host: Target
) -> None:
    task = tasks["conv2d+add+prelu"]
    model = _trained()
    generations = _generations(model)
    search = TaskSearch(task.workload.tir, tvm_target(host), model, threads=2, seed=1)
    measured = {one.module_hash for one in search.propose(8, [], NOTHING)}
    seen = set().union(*generations)
    generations.clear()
    search.propose(8, [], frozenset(measured))
    survivors = generations[0] & seen
    assert len(survivors) > len(generations[0]) / 2
    assert not survivors & measured


def _generations(model: CostModel) -> list[set[str]]:
    """The modules of each generation, as they will be scored."""
    generations: list[set[str]] = []
    inner = model.tvm_model._inst
    predict = inner.predict

    def noting(context: Any, candidates: Sequence[Any]) -> Any:
        generations.append({module_hash(one.sch.mod) for one in candidates})
        return predict(context, candidates)

    inner.predict = noting
    return generations


def _trained() -> CostModel:
    """Has learnt something, so that searches evolve."""
    rows = np.random.default_rng(1).uniform(size=(24, 1, FEATURES)).astype("float32")
    model = CostModel(threads=2, seed=1)
    model.learn(Sample("", one, 1.0) for one in rows)
    return model


def _pessimist() -> CostModel:
    """Sure that whatever was not measured is slow, each generation a little less: no samples teach
    a model that."""
    model = _trained()
    scores = itertools.count(1e-6, 1e-6)
    model.tvm_model._inst._expected = lambda _, found: np.full(len(found), next(scores))
    return model


def _decisions(candidate: Candidate) -> set[str]:
    return {json.dumps(decision) for decision in json.loads(candidate.trace)[1]}


def test_a_small_space_is_exhausted_without_an_error(tasks: dict[str, Task], host: Target) -> None:
    search = _search(tasks["reshape"], host)
    known: set[str] = set()
    for _ in range(4):
        known |= {one.module_hash for one in search.propose(16, [], frozenset(known))}
    assert 1 <= len(known) <= 8
    assert search.propose(16, [], frozenset(known)) == []


def test_a_hostile_record_is_left_out_of_the_population(
    tasks: dict[str, Task], host: Target
) -> None:
    task = tasks["matmul+add"]
    key = task.workload.key.on(str(host))
    hostile = Candidate(
        json.dumps([[["Annotate", ["b0", '"x"'], ["pragma_import_llvm"], []]], []]), "0" * 16
    )
    search = _search(task, host)
    assert search.propose(4, [_measured(key, hostile, 1e-9)], NOTHING)


def test_a_record_that_does_not_replay_is_left_out_of_the_population(
    tasks: dict[str, Task], host: Target
) -> None:
    task = tasks["matmul+add"]
    key = task.workload.key.on(str(host))
    foreign = Candidate(json.dumps([[["GetSBlock", [], ["nowhere", "main"], ["b0"]]], []]), "1")
    search = _search(task, host)
    assert search.propose(4, [_measured(key, foreign, 1e-9)], NOTHING)


def test_nothing_wanted_is_nothing_proposed(tasks: dict[str, Task], host: Target) -> None:
    assert _search(tasks["matmul+add"], host).propose(0, [], NOTHING) == []


def test_another_seed_searches_elsewhere(tasks: dict[str, Task], host: Target) -> None:
    task = tasks["conv2d+add+prelu"]
    ones, others = (
        {one.module_hash for one in _search(task, host, seed).propose(8, [], NOTHING)}
        for seed in (1, 2)
    )
    assert ones != others
