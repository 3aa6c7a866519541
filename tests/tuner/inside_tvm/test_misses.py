"""What TVM asks a TunebookDatabase for in vain, and how that is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import tvm
from database_samples import UNSCHEDULED, Fill, apply, scheduled
from tvm import relax
from tvm.s_tir import meta_schedule as ms
from tvm.script import ir as I
from tvm.script import tirx as T

from tunebook.cache.errors import ModelError
from tunebook.cache.misses import MissReason, ScheduleMissError
from tunebook.cache.records import Candidate, Model
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner import TunebookDatabase
from tunebook.tuner.inside_tvm.tunebook_database import ScheduleMissWarning
from tunebook.tuner.splitting.prepare import PreparedModule


def test_all_misses_are_told_at_once_on_leaving(
    network: PreparedModule, model: Model, store: Store, host: Target
) -> None:
    with pytest.raises(ScheduleMissError) as refused:
        apply(TunebookDatabase(store, host), network.module)
    assert {miss.key for miss in refused.value.misses} == set(model.keys)
    assert {miss.reason for miss in refused.value.misses} == {MissReason.NEVER_TUNED}
    assert "3 schedules are missing" in str(refused.value)
    assert "tunebook tune MODEL" in str(refused.value)
    assert "--more 48" in str(refused.value)


def test_a_miss_has_the_operators_that_were_noted_when_the_model_was_split(
    network: PreparedModule, model: Model, store: Store, host: Target
) -> None:
    store.save_model(model)
    database = TunebookDatabase(store, host)
    renamed = {
        f"without_meaning{number}": function
        for number, function in enumerate(network.module.functions.values())
        if isinstance(function, tvm.tirx.PrimFunc)
    }
    with pytest.raises(ScheduleMissError):
        apply(database, tvm.IRModule(renamed))
    assert {miss.key for miss in database.misses} == set(model.keys)


def test_what_misses_stays_untuned_where_a_warning_is_enough(
    network: PreparedModule, model: Model, store: Store, host: Target, fill: Fill
) -> None:
    first = model.tasks[0]
    fill(
        store,
        replace(model, tasks=(first,)),
        [Candidate(UNSCHEDULED, first.workload.key.hash)],
    )
    database = TunebookDatabase(store, host, on_miss="warn")
    with (
        pytest.warns(ScheduleMissWarning, match="2 schedules are missing") as warned,
        database.target,
        database,
    ):
        result = relax.transform.MetaScheduleApplyDatabase()(network.module)
    assert [Path(one.filename) for one in warned] == [Path(__file__)]
    assert {miss.key for miss in database.misses} == set(model.keys[1:])
    assert len(scheduled(result)) == 1


def test_a_schedule_that_is_stored_too_late_is_a_miss_all_the_same(
    network: PreparedModule, model: Model, store: Store, host: Target, fill: Fill
) -> None:
    database = TunebookDatabase(store, host)
    candidates = [Candidate(UNSCHEDULED, task.workload.key.hash) for task in model.tasks]
    with pytest.raises(ScheduleMissError) as refused, database.target, database:
        relax.transform.MetaScheduleApplyDatabase()(network.module)
        fill(store, model, candidates)
    assert {miss.key for miss in refused.value.misses} == set(model.keys)


def test_asked_outside_of_any_with_it_tells_each_miss_at_once(
    network: PreparedModule, store: Store, host: Target
) -> None:
    database = TunebookDatabase(store, host)
    with (
        pytest.raises(Exception, match="1 schedule is missing"),
        database.target,
        ms.database.UnionDatabase(database),
    ):
        relax.transform.MetaScheduleApplyDatabase()(network.module)


def test_an_exception_on_the_way_is_the_cause_of_what_is_told(
    network: PreparedModule, store: Store, host: Target
) -> None:
    database = TunebookDatabase(store, host)
    with pytest.raises(ScheduleMissError) as refused, database.target, database:
        relax.transform.MetaScheduleApplyDatabase()(network.module)
        raise ValueError("on the way")
    assert isinstance(refused.value.__cause__, ValueError)


def test_an_exception_goes_on_where_there_is_nothing_to_tell(
    network: PreparedModule, tuned: Store, host: Target
) -> None:
    database = TunebookDatabase(tuned, host)
    with pytest.raises(ValueError, match="on the way"), database.target, database:
        raise ValueError("on the way")


def test_what_ends_the_program_goes_on_whatever_missed(
    network: PreparedModule, store: Store, host: Target
) -> None:
    database = TunebookDatabase(store, host)
    with pytest.raises(KeyboardInterrupt), database.target, database:
        relax.transform.MetaScheduleApplyDatabase()(network.module)
        raise KeyboardInterrupt
    assert len(database.misses) == 3


@I.ir_module(s_tir=True)
class WrittenByHand:
    """Functions that no model is split into: one of any length, and one that takes a number."""

    @T.prim_func(private=True, s_tir=True)
    def any_length(a: T.handle, b: T.handle):
        n = T.int64()
        source = T.match_buffer(a, (n,), "float32")
        result = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            with T.sblock("copy"):
                at = T.axis.spatial(n, i)
                result[at] = source[at]

    @T.prim_func(private=True, s_tir=True)
    def takes_a_number(number: T.int64, result: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("fill"):
                at = T.axis.spatial(4, i)
                result[at] = T.cast(number, "float32")


@pytest.mark.parametrize("name", ["any_length", "takes_a_number"])
def test_a_function_that_can_have_no_key_is_named(name: str, store: Store, host: Target) -> None:
    module = tvm.IRModule({name: WrittenByHand[name]})
    with pytest.raises(ModelError, match=f"function {name} cannot be looked up") as refused:
        apply(TunebookDatabase(store, host), module)
    assert "\n" not in str(refused.value)
    with pytest.warns(ScheduleMissWarning, match="cannot be looked up") as warned:
        apply(TunebookDatabase(store, host, on_miss="warn"), module)
    assert len(warned) == 1
