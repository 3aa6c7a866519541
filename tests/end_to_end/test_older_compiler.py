"""What was tuned with an older TVM survives the new one: misses say so, and its traces replay."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tunebook.cache.misses import MissReason
from tunebook.cache.records import Source
from tunebook.cache.store import Store
from tunebook.cache.untrusted.traces import check_trace
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.llvm_targets import resolve_target
from tunebook.tuner.recovery.adaptation import NearTrace, adapt

sys.path.insert(0, str(Path(__file__).parents[1] / "data" / "old-compiler"))
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from recovery_models import PARTS, single_tasks
from stored_searches import StoredSearch, old_compiler_searches, put_search

SEARCHES = old_compiler_searches()


def _name(search: StoredSearch) -> str:
    key = search.model.keys[0]
    return f"{key.op} {key.buffers}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(tmp_path / "tunebook.db")) as store:
        for search in SEARCHES:
            put_search(store, search)
        yield store


@pytest.mark.parametrize("search", SEARCHES, ids=_name)
def test_its_records_are_served_to_it_and_to_no_other(store: Store, search: StoredSearch) -> None:
    (old,) = search.model.keys
    workload = replace(old.workload, compiler=compiler_text(), hash="0" * 16)
    new = workload.on(old.target)
    answer = store.lookup([old, new], accept_emulated=True)
    assert list(answer.hits) == [old]
    (miss,) = answer.misses
    assert miss.reason is MissReason.OTHER_COMPILER
    assert miss.nearest == old


@pytest.mark.parametrize("search", SEARCHES, ids=_name)
def test_its_traces_hold_nothing_that_is_refused(search: StoredSearch) -> None:
    for record in search.records:
        check_trace(record.candidate.trace)


@pytest.mark.slow
def test_its_traces_replay_on_the_workload_that_is_split_anew(tmp_path: Path) -> None:
    """The workload has another hash by now, and the same operators and buffers."""
    transformer = [part for part in PARTS if part.model == "transformer"]
    target = resolve_target(SEARCHES[0].model.target)
    old = {_name(search): search for search in SEARCHES}
    models = single_tasks(transformer, target, tmp_path)
    assert len(models) == 3
    for model in models:
        (key,) = model.keys
        search = old[f"{key.op} {key.buffers}"]
        assert search.model.keys[0].workload_hash != key.workload_hash
        near = [
            NearTrace(record.candidate.trace, MissReason.OTHER_COMPILER, f"record {record.id}")
            for record in search.records
        ]
        found = adapt(
            model.tasks[0].workload.tir,
            str(target),
            near,
            source=Source.MIGRATION,
            seed=1,
            limit=2 * len(near),
        )
        replayed = {one.origin for one in found if one.origin.endswith("as recorded")}
        assert len(replayed) == len(near)
