"""Tunebook's schedules inside TVM's own passes."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.relax_integration import compile_relax
from tvm.script import ir as I
from tvm.script import tirx as T

from tunebook.cache.errors import ModelError, TargetError, UntrustedTraceError, UsageError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import LookupAnswer, MissReason, ScheduleMissError
from tunebook.cache.records import Candidate, Model, Schedule
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner import TunebookDatabase
from tunebook.tuner.frontend import read_model
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.imported_model import ImportedModel
from tunebook.tuner.llvm_targets import tvm_target
from tunebook.tuner.prepare import PreparedModule, prepare
from tunebook.tuner.replayed_records import ReplayError
from tunebook.tuner.split import split_model
from tunebook.tuner.tunebook_database import ScheduleMissWarning
from tunebook.tuner.unasked_tasks import UnaskedTasksError

Read = Callable[..., ImportedModel]
Fill = Callable[[Store, Model, Sequence[Candidate]], None]
A76 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"
UNSCHEDULED = json.dumps([[], []])
SCHEDULED = "tirx.is_scheduled"


@pytest.fixture(scope="module")
def network(
    onnx_models: ModuleType, host: Target, tmp_path_factory: pytest.TempPathFactory
) -> PreparedModule:
    """Three tasks: two different convolutions with a relu each, and a pooling."""
    path = tmp_path_factory.mktemp("network") / "network.onnx"
    onnx_models.save(path, onnx_models.convolution_after_others())
    return prepare(read_model(path, None), host)


@pytest.fixture(scope="module")
def model(network: PreparedModule) -> Model:
    return split_model(network)


@pytest.fixture
def tuned(store: Store, model: Model, fill: Fill) -> Store:
    """A store with a schedule for each task, which does nothing: it says what it was measured as,
    and takes no time to find."""
    fill(store, model, [Candidate(UNSCHEDULED, task.workload.key.hash) for task in model.tasks])
    return store


def apply(database: Any, module: Any) -> Any:
    with database.target, database:
        return relax.transform.MetaScheduleApplyDatabase()(module)


def scheduled(module: Any) -> list[str]:
    """The names of the functions that got a schedule."""
    return sorted(
        variable.name_hint
        for variable, function in module.functions.items()
        if isinstance(function, tvm.tirx.PrimFunc) and function.attrs.get(SCHEDULED, False)
    )


def functions(module: Any) -> list[str]:
    return sorted(
        variable.name_hint
        for variable, function in module.functions.items()
        if isinstance(function, tvm.tirx.PrimFunc)
    )


def run(executable: Any, image: Any) -> Any:
    machine = relax.VirtualMachine(executable, tvm.cpu())
    return machine["main"](tvm.runtime.tensor(image)).numpy()


def alter(folder: Path, table: str, column: str, value: str | int) -> None:
    """By hand, since nothing of ours would store it."""
    with sqlite3.connect(folder / "tunebook.db") as database:
        database.execute(f"UPDATE {table} SET {column} = ?", (value,))


def hash_of(module: Any) -> str:
    """Of a module with one function, as TVM normalises it."""
    (function,) = module.functions.values()
    return module_hash(tvm.IRModule({"main": function.with_attr("global_symbol", "main")}))


def test_tvm_compiles_a_model_with_schedules_of_the_store(
    read: Read, host: Target, store: Store, sample: Callable[..., Candidate], fill: Fill
) -> None:
    imported = read("convolution")
    model = split_model(prepare(imported, host))
    fill(store, model, [sample(task.workload, host) for task in model.tasks])
    database = TunebookDatabase(store, host)
    executable = compile_relax(database, imported.module, database.target, params=None)
    assert database.misses == ()
    untuned = tvm.compile(imported.module, database.target)
    image = np.random.default_rng(0).standard_normal((1, 4, 12, 12)).astype("float32")
    np.testing.assert_allclose(run(executable, image), run(untuned, image), rtol=1e-4, atol=1e-5)


def test_every_function_gets_its_schedule(
    network: PreparedModule, tuned: Store, host: Target
) -> None:
    result = apply(TunebookDatabase(tuned, host), network.module)
    assert scheduled(result) == functions(network.module)


PASSES = relax.transform


@pytest.mark.parametrize(
    "pipeline",
    [
        # It takes a database without records for none.
        lambda target: relax.get_pipeline("zero"),
        lambda target: tvm.transform.Sequential(
            [
                PASSES.DecomposeOpsForInference(),
                PASSES.CanonicalizeBindings(),
                relax.get_pipeline("zero"),
            ]
        ),
        # It applies its database twice.
        lambda target: relax.get_pipeline(
            "static_shape_tuning", total_trials=0, target=target, work_dir="unused"
        ),
    ],
    ids=["zero", "decomposed and zero", "static_shape_tuning"],
)
def test_pipelines_that_fuse_an_imported_module_once_ask_for_exactly_its_tasks(
    pipeline: Callable[[Any], Any],
    network: PreparedModule,
    model: Model,
    tuned: Store,
    host: Target,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    database = TunebookDatabase(tuned, host, model=model)
    with database.target, database:
        result = pipeline(database.target)(network.model.module)
    assert scheduled(result) == functions(result)
    assert database.misses == ()


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
    with pytest.warns(ScheduleMissWarning, match="2 schedules are missing") as warned:
        result = apply(database, network.module)
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


def test_a_record_that_does_not_replay_to_what_was_measured_is_named_on_leaving(
    network: PreparedModule, tuned: Store, host: Target, tmp_path: Path
) -> None:
    alter(tmp_path, "records", "module_hash", "0123456789abcdef")
    with pytest.raises(ReplayError, match="and not to 0123456789abcdef"):
        apply(TunebookDatabase(tuned, host, on_miss="warn"), network.module)


def test_such_a_record_is_named_also_where_the_exception_was_caught_on_the_way(
    network: PreparedModule, tuned: Store, host: Target, tmp_path: Path
) -> None:
    alter(tmp_path, "records", "module_hash", "0123456789abcdef")
    database = TunebookDatabase(tuned, host)
    with (
        pytest.raises(ReplayError),
        database.target,
        database,
        contextlib.suppress(Exception),
    ):
        relax.transform.MetaScheduleApplyDatabase()(network.module)


HOSTILE = json.dumps(
    [
        [
            ["GetSBlock", [], ["conv2d_nchw", "main"], ["b0"]],
            ["Annotate", ["b0", '"module asm \\"evil\\""'], ["pragma_import_llvm"], []],
        ],
        [],
    ]
)


def test_a_trace_that_carries_code_is_refused_at_serving(
    network: PreparedModule, tuned: Store, host: Target, tmp_path: Path
) -> None:
    alter(tmp_path, "records", "trace", HOSTILE)
    with pytest.raises(ScheduleMissError) as refused:
        apply(TunebookDatabase(tuned, host), network.module)
    for miss in refused.value.misses:
        assert miss.reason is MissReason.UNVERIFIED
        assert "pragma_import_llvm" in miss.explanation


class ServesAnything(Store):
    """A fake: a store whose look-ups do not check traces, which ours does before it serves."""

    def lookup(self, keys: Sequence[ScheduleKey], **_: Any) -> LookupAnswer:
        hits = {key: Schedule(key, 7, HOSTILE, "", 1e-3, False) for key in keys}
        return LookupAnswer(hits=hits, misses=())


def test_a_trace_that_carries_code_is_refused_at_replay_too(
    network: PreparedModule, host: Target, tmp_path: Path
) -> None:
    with (
        ServesAnything.open(str(tmp_path / "other.db")) as store,
        pytest.raises(UntrustedTraceError, match="pragma_import_llvm"),
    ):
        apply(TunebookDatabase(store, host), network.module)


def test_the_innermost_database_is_asked_and_each_tells_its_own(
    network: PreparedModule, tuned: Store, host: Target, tmp_path: Path
) -> None:
    with Store.open(str(tmp_path / "empty.db")) as empty:
        outer, inner = TunebookDatabase(tuned, host), TunebookDatabase(empty, host)
        with outer.target, outer:
            with pytest.raises(ScheduleMissError), inner:
                relax.transform.MetaScheduleApplyDatabase()(network.module)
            result = relax.transform.MetaScheduleApplyDatabase()(network.module)
        assert (len(outer.misses), len(inner.misses)) == (0, 3)
        assert scheduled(result) == functions(network.module)


def test_one_that_is_entered_twice_tells_on_leaving_for_good(
    network: PreparedModule, store: Store, host: Target
) -> None:
    database = TunebookDatabase(store, host)
    left = []
    with pytest.raises(ScheduleMissError), database.target, database:
        apply(database, network.module)
        left.append("the inner one")
        assert ms.Database.current() == database
    assert left == ["the inner one"]
    assert ms.Database.current() is None


def test_two_uses_one_after_another_start_afresh(
    network: PreparedModule, model: Model, store: Store, host: Target, fill: Fill
) -> None:
    database = TunebookDatabase(store, host)
    with pytest.raises(ScheduleMissError):
        apply(database, network.module)
    fill(store, model, [Candidate(UNSCHEDULED, task.workload.key.hash) for task in model.tasks])
    apply(database, network.module)
    assert database.misses == ()


def test_it_holds_for_the_thread_that_entered_it(tuned: Store, network: Any, host: Target) -> None:
    database = TunebookDatabase(tuned, host)
    seen = []
    with database.target, database:
        relax.transform.MetaScheduleApplyDatabase()(network.module)
        other = threading.Thread(target=lambda: seen.append(ms.Database.current()))
        other.start()
        other.join()
    assert seen == [None]


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


def test_schedules_of_emulated_boards_are_served_where_they_are_accepted(
    network: PreparedModule, tuned: Store, host: Target, tmp_path: Path
) -> None:
    for table in ("records", "schedules"):
        alter(tmp_path, table, "emulated", 1)
    apply(TunebookDatabase(tuned, host, accept_emulated=True), network.module)
    with pytest.raises(ScheduleMissError) as refused:
        apply(TunebookDatabase(tuned, host), network.module)
    assert {miss.reason for miss in refused.value.misses} == {MissReason.EMULATED_ONLY}


@pytest.mark.parametrize("field", ["target", "compiler"])
def test_a_model_that_was_split_otherwise_is_refused(
    field: str, model: Model, store: Store, host: Target
) -> None:
    with pytest.raises(UsageError, match="was split"):
        TunebookDatabase(store, host, model=replace(model, **{field: A76}))


def test_what_it_does_not_offer_it_says(store: Store, host: Target, network: Any) -> None:
    database = TunebookDatabase(store, host)
    with pytest.raises(Exception, match="answers look-ups only"):
        database.commit_workload(network.module)


def test_naming_it_loads_tvm_and_importing_the_package_does_not() -> None:
    program = (
        "import sys, tunebook.tuner; assert 'tvm' not in sys.modules;"
        "tunebook.tuner.TunebookDatabase; assert 'tvm' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_example_of_the_documentation_runs(
    onnx_models: ModuleType,
    host: Target,
    sample: Callable[..., Candidate],
    fill: Fill,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = (Path(__file__).parents[2] / "docs" / "inside-tvm.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    path = onnx_models.save(tmp_path / "net.onnx", onnx_models.convolution())
    model = split_model(prepare(read_model(path, None), host))
    with Store.open(str(tmp_path / "tunebook.db")) as store:
        fill(store, model, [sample(task.workload, host) for task in model.tasks])
    monkeypatch.chdir(tmp_path)
    exec(example, {})
    library = tvm.runtime.load_module(str(tmp_path / "net.so"))
    image = np.ones((1, 4, 12, 12), "float32")
    assert run(library, image).shape == (1, 8, 10, 10)
