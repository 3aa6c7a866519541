"""The schedules of a build as TVM asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.s_tir.meta_schedule.relax_integration import compile_relax

from tunebook.cache.records import Candidate, Schedule
from tunebook.cache.targets import Target
from tunebook.tuner.builds.schedules_database import BuildAccount, SchedulesDatabase
from tunebook.tuner.importing.imported_model import ImportedModel
from tunebook.tuner.llvm_targets import tvm_target
from tunebook.tuner.splitting.prepare import prepare
from tunebook.tuner.splitting.split import split
from tunebook.tuner.traces.usable import ReplayError

Read = Callable[..., ImportedModel]


def test_people_who_call_tvm_themselves_can_use_it_as_a_database(
    read: Read, host: Target, sample: Callable[..., Candidate]
) -> None:
    model = read("convolution")
    (task,) = split(prepare(model, host))
    key = task.workload.key.on(str(host))
    candidate = sample(task.workload, host)
    schedule = Schedule(key, 1, candidate.trace, candidate.module_hash, 1e-3, False)
    target = tvm_target(host)
    account = BuildAccount([key])
    database = SchedulesDatabase({key: schedule}, target, account)
    executable = compile_relax(database, model.module, target, params=None)
    assert account.unasked == ()
    untuned = tvm.compile(model.module, target)
    image = np.random.default_rng(0).standard_normal((1, 4, 12, 12)).astype("float32")
    np.testing.assert_allclose(_run(executable, image), _run(untuned, image), rtol=1e-4, atol=1e-5)


def test_a_workload_that_is_no_task_of_the_model_is_an_error(read: Read, host: Target) -> None:
    prepared = prepare(read("convolution"), host)
    account = BuildAccount([])
    database = SchedulesDatabase({}, tvm_target(host), account)
    with pytest.raises(RuntimeError), tvm_target(host), database:
        relax.transform.MetaScheduleApplyDatabase()(prepared.module)
    assert isinstance(account.failure, ReplayError)
    assert "splitting the model did not give" in str(account.failure)


def test_a_task_that_is_never_asked_for_is_known(read: Read, host: Target) -> None:
    first = prepare(read("convolution"), host)
    other = split(prepare(read("many_relus", count=1), host))
    keys = [task.workload.key.on(str(host)) for task in (*split(first), *other)]
    account = BuildAccount(keys)
    with tvm_target(host), SchedulesDatabase({}, tvm_target(host), account):
        relax.transform.MetaScheduleApplyDatabase()(first.module)
    assert account.failure is None
    assert account.unasked == (keys[1],)


def test_what_has_no_schedule_stays_untuned(read: Read, host: Target) -> None:
    prepared = prepare(read("convolution"), host)
    keys = [task.workload.key.on(str(host)) for task in split(prepared)]
    with tvm_target(host), SchedulesDatabase({}, tvm_target(host), BuildAccount(keys)):
        result = relax.transform.MetaScheduleApplyDatabase()(prepared.module)
    functions = [one for one in result.functions.values() if isinstance(one, tvm.tirx.PrimFunc)]
    assert functions
    assert not any("tirx.is_scheduled" in function.attrs for function in functions)


def _run(executable: Any, image: Any) -> Any:
    machine = relax.VirtualMachine(executable, tvm.cpu())
    return machine["main"](tvm.runtime.tensor(image)).numpy()
