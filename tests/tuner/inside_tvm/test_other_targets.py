"""A TunebookDatabase answers for one target, however it is spelt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import tvm
from database_samples import UNSCHEDULED, Fill, functions, scheduled
from near_programs import A76
from tvm import relax

from tunebook.cache.errors import TargetError, UsageError
from tunebook.cache.records import Candidate, Model
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner import TunebookDatabase
from tunebook.tuner.splitting.prepare import PreparedModule


def test_another_target_than_its_own_is_refused_by_name(
    network: PreparedModule, tuned: Store, host: Target
) -> None:
    database = TunebookDatabase(tuned, A76)
    own = TunebookDatabase(tuned, host).target
    with pytest.raises(TargetError) as refused, own, database:
        relax.transform.MetaScheduleApplyDatabase()(network.module)
    assert A76 in str(refused.value)
    assert str(host) in str(refused.value)


@pytest.mark.parametrize(
    "target", [{"kind": "llvm", "mtriple": "x86_64-linux-gnu"}, {"kind": "c"}], ids=str
)
def test_a_target_that_tunebook_has_no_text_for_is_another(
    target: dict[str, Any], network: PreparedModule, tuned: Store, host: Target
) -> None:
    database = TunebookDatabase(tuned, host, on_miss="warn")
    with pytest.raises(TargetError, match="another target"), tvm.target.Target(target), database:
        relax.transform.MetaScheduleApplyDatabase()(network.module)


def test_another_spelling_of_its_target_is_the_same(
    network: PreparedModule, model: Model, store: Store, fill: Fill, host: Target
) -> None:
    target = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -mattr=+dotprod,+neon -num-cores=4"
    fill(
        store,
        replace(model, target=target),
        [Candidate(UNSCHEDULED, task.workload.key.hash) for task in model.tasks],
    )
    spelt = {
        "kind": "llvm",
        "mtriple": "aarch64-unknown-linux-gnu",
        "mcpu": "cortex-a76",
        "mattr": ["+neon", "+dotprod"],
        "num-cores": 4,
        "keys": ["arm_cpu", "cpu"],
    }
    with tvm.target.Target(spelt), TunebookDatabase(store, target):
        result = relax.transform.MetaScheduleApplyDatabase()(network.module)
    assert scheduled(result) == functions(network.module)


@pytest.mark.parametrize("field", ["target", "compiler"])
def test_a_model_that_was_split_otherwise_is_refused(
    field: str, model: Model, store: Store, host: Target
) -> None:
    with pytest.raises(UsageError, match="was split"):
        TunebookDatabase(store, host, model=replace(model, **{field: A76}))
