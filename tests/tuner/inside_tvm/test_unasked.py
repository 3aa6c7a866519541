"""What a TunebookDatabase should have been asked for, and was not."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import pytest
import tvm
from database_samples import UNSCHEDULED, Fill, apply, functions, hash_of, scheduled
from tvm import relax

from tunebook.cache.misses import MissReason, ScheduleMissError
from tunebook.cache.records import Candidate, Model
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner import TunebookDatabase
from tunebook.tuner.inside_tvm.tunebook_database import ScheduleMissWarning
from tunebook.tuner.inside_tvm.unasked_tasks import UnaskedTasksError
from tunebook.tuner.llvm_targets import tvm_target
from tunebook.tuner.splitting.prepare import PreparedModule

PASSES = relax.transform


@pytest.mark.parametrize(
    "passes",
    [
        [PASSES.LegalizeOps()],
        [PASSES.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]}), relax.get_pipeline()],
    ],
    ids=["without fusing", "in another layout"],
)
def test_other_pipelines_ask_for_other_programs(
    passes: list[Any], network: PreparedModule, model: Model, tuned: Store, host: Target
) -> None:
    database = TunebookDatabase(tuned, host, model=model)
    with pytest.raises(UnaskedTasksError) as refused, database.target, database:
        changed = tvm.transform.Sequential(passes)(network.model.module)
        relax.transform.MetaScheduleApplyDatabase()(changed)
    assert refused.value.misses
    assert refused.value.unasked is not None


def test_a_database_that_nothing_asks_is_a_build_without_schedules(
    network: PreparedModule, tuned: Store, host: Target
) -> None:
    database = TunebookDatabase(tuned, host)
    with pytest.raises(UnaskedTasksError, match="no schedule at all"), database.target, database:
        relax.transform.LegalizeOps()(network.model.module)


def test_tasks_of_the_given_model_that_were_never_asked_for_are_told(
    network: PreparedModule, model: Model, tuned: Store, host: Target
) -> None:
    asked = functions(network.module)[0]
    part = tvm.IRModule({asked: network.module[asked]})
    with pytest.raises(UnaskedTasksError, match="never asked for 2 of the 3 tasks") as refused:
        apply(TunebookDatabase(tuned, host, model=model), part)
    assert refused.value.unasked is not None
    assert set(refused.value.unasked.keys) < set(model.keys)
    apply(TunebookDatabase(tuned, host, model=model), network.module)


@pytest.mark.parametrize(
    ("change", "unasked", "field"),
    [
        (relax.get_pipeline(), 2, "function.op_pattern"),
        (relax.transform.AttachGlobalSymbol(), 3, "function.global_symbol"),
    ],
    ids=["fused twice", "given symbols"],
)
def test_a_module_that_asks_for_its_tasks_in_another_form_is_told_what_it_never_asked_for(
    change: Any,
    unasked: int,
    field: str,
    network: PreparedModule,
    model: Model,
    host: Target,
    tuned: Store,
) -> None:
    """TVM marks functions when it fuses them, and the mark of a second time is in the hash."""
    with tvm_target(host):
        changed = change(network.module)
    with pytest.raises(UnaskedTasksError, match="other-pipeline") as refused:
        apply(TunebookDatabase(tuned, host), changed)
    assert f"never asked for {unasked} of the 3 tasks of model {model.digest[:12]}" in str(
        refused.value
    )
    assert f"{unasked} schedules are missing" in str(refused.value)
    assert refused.value.unasked is not None
    assert set(refused.value.unasked.keys) <= set(model.keys)
    for miss in refused.value.misses:
        assert miss.reason is MissReason.OTHER_PIPELINE
        assert miss.nearest in refused.value.unasked.keys
        assert (miss.key.op, miss.key.buffers) == (miss.nearest.op, miss.nearest.buffers)
        assert [one.field for one in miss.differences] == [field]
        assert "fused twice" in miss.explanation
        assert miss.mending_command.startswith("tunebook build MODEL")


def test_the_same_is_a_warning_where_a_warning_is_enough(
    network: PreparedModule, tuned: Store, host: Target
) -> None:
    database = TunebookDatabase(tuned, host, on_miss="warn")
    with (
        pytest.warns(ScheduleMissWarning, match="never asked for 2 of the 3 tasks"),
        database.target,
        database,
    ):
        relax.get_pipeline()(network.module)


def test_a_smaller_model_that_was_never_stored_is_compiled_with_a_warning(
    network: PreparedModule, model: Model, tuned: Store, host: Target
) -> None:
    """It asks like a module of which a part got lost, and all that it asks for is served."""
    name = functions(network.module)[0]
    part = tvm.IRModule({name: network.module[name]})
    database = TunebookDatabase(tuned, host)
    with pytest.warns(ScheduleMissWarning, match="2 of the 3 tasks .* say which by model="):
        result = apply(database, part)
    assert scheduled(result) == [name]
    smaller = replace(
        model,
        digest="0" * 64,
        tasks=tuple(
            task
            for task in model.tasks
            if task.workload.key
            in {key.workload for key in model.keys if key.workload_hash == hash_of(part)}
        ),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apply(TunebookDatabase(tuned, host, model=smaller), part)
        tuned.save_model(smaller)
        apply(database, part)


def test_a_new_model_that_shares_a_task_with_a_stored_one_only_misses_the_others(
    network: PreparedModule, model: Model, store: Store, host: Target, fill: Fill
) -> None:
    shared = replace(model, digest="0" * 64, tasks=model.tasks[:1])
    fill(store, shared, [Candidate(UNSCHEDULED, shared.tasks[0].workload.key.hash)])
    with pytest.raises(ScheduleMissError) as refused:
        apply(TunebookDatabase(store, host), network.module)
    assert not isinstance(refused.value, UnaskedTasksError)
    assert len(refused.value.misses) == 2
