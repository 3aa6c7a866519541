"""Building a model from the cache: all look-ups first, and no build when one of them misses."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import tvm
from tvm import relax
from tvm.ir.transform import PassContext

from tunebook.cache.errors import TunebookError, UsageError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.likeness import NO_HINTS, LookupHints
from tunebook.cache.misses import LookupAnswer, ScheduleMissError
from tunebook.cache.records import Model, Schedule, Task
from tunebook.cache.targets import Target
from tunebook.tuner.builds.compiled_model import CompiledModel
from tunebook.tuner.builds.manifest import Manifest, ManifestTask, ManifestTensor
from tunebook.tuner.builds.on_miss import OnMiss, check_on_miss
from tunebook.tuner.builds.schedules_database import BuildAccount, SchedulesDatabase
from tunebook.tuner.compiler import compiler_versions
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.importing.imported_model import ImportedModel, TensorSpec
from tunebook.tuner.llvm_targets import resolve_target, tvm_target
from tunebook.tuner.one_line import one_line
from tunebook.tuner.splitting.choices import Choices
from tunebook.tuner.splitting.prepare import PreparedModule, prepare
from tunebook.tuner.splitting.split import split_model
from tunebook.tuner.splitting.stored_choices import ModelSource, stored_choices
from tunebook.tuner.traces.usable import ReplayError
from tunebook.tuner.trials.linking import linker_for
from tunebook.tuner.tvm_compat import load_cpu_intrinsics


class BuildError(TunebookError):
    """TVM could not compile the model, or compiled another one than was split."""


class ScheduleSource(ModelSource, Protocol):
    """Where schedules come from: a `Store`, or whatever answers as it does."""

    def lookup(
        self,
        keys: Sequence[ScheduleKey],
        *,
        accept_emulated: bool = False,
        hints: LookupHints = NO_HINTS,
    ) -> LookupAnswer: ...


@dataclass(frozen=True)
class _Plan:
    """A prepared model with what the cache has for it."""

    prepared: PreparedModule
    model: Model
    answer: LookupAnswer

    def key(self, task: Task) -> ScheduleKey:
        return task.workload.key.on(self.model.target)

    def keys(self) -> list[ScheduleKey]:
        return [self.key(task) for task in self.model.tasks]


def compile_model(
    model: ImportedModel | Path | str,
    target: Target | str,
    *,
    cache: ScheduleSource,
    output: Path | str,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    on_miss: OnMiss = "error",
    accept_emulated: bool = False,
    choices: Choices | None = None,
) -> CompiledModel:
    """Builds a model with the schedules of the cache; writes `output`.so and `output`.json.

    With `on_miss="error"` a single miss refuses the build before anything is compiled
    (ScheduleMissError with all of them); with `"warn"` what missed is built untuned and listed in
    `misses`. Without `choices` the build repeats those that the model was tuned with. Raises
    ModelError, TargetError, ReplayError for a stored schedule that does not replay,
    UntrustedTraceError, and BuildError.
    """
    check_on_miss(on_miss)
    imported = _imported(model, shapes)
    resolved = resolve_target(target) if isinstance(target, str) else target
    library = _library_path(output)
    prepared = prepare(imported, resolved, choices or stored_choices(cache, imported, resolved))
    split = split_model(prepared, with_tir=False)
    keys = [task.workload.key.on(split.target) for task in split.tasks]
    answer = cache.lookup(keys, accept_emulated=accept_emulated, hints=split.hints)
    if answer.misses and on_miss == "error":
        raise ScheduleMissError(answer.misses)
    plan = _Plan(prepared, split, answer)
    manifest = _manifest(plan, library)
    _export(_build(plan), manifest, library)
    return CompiledModel(library, library.with_suffix(".json"), manifest, answer.misses)


def _imported(
    model: ImportedModel | Path | str, shapes: Mapping[str, tuple[int, ...]] | None
) -> ImportedModel:
    if not isinstance(model, ImportedModel):
        return read_model(Path(model), shapes)
    if shapes:
        raise UsageError("an imported model has its shapes; give them when it is read")
    return model


def _library_path(output: Path | str) -> Path:
    named = Path(str(output).removesuffix(".so"))
    if named.name in ("", "..") or named.is_dir():
        raise UsageError(f"the output {str(output)!r} is a folder; give a file's name inside it")
    library = Path(f"{named}.so")
    if not library.parent.is_dir():
        raise UsageError(f"the folder {library.parent} of the output does not exist; create it")
    if not os.access(library.parent, os.W_OK | os.X_OK):
        raise UsageError(
            f"the folder {library.parent} of the output cannot be written; give another"
        )
    for path in (library, library.with_suffix(".json")):
        if path.is_dir():
            raise UsageError(f"the output {path} is a directory; give another name")
    return library


def _build(plan: _Plan) -> Any:
    """The executable; every task of the model was asked for, and every schedule replayed."""
    load_cpu_intrinsics()
    target = tvm_target(plan.prepared.target)
    account = BuildAccount(plan.keys())
    database = SchedulesDatabase(plan.answer.hits, target, account)
    try:
        with target, database, PassContext(opt_level=3):
            scheduled = relax.transform.MetaScheduleApplyDatabase()(plan.prepared.module)
            _require_all_scheduled(scheduled, plan.answer.hits, account)
            executable = relax.build(scheduled, target=target, relax_pipeline=_lowering())
    except TunebookError:
        raise
    except Exception as error:
        if account.failure is not None:
            raise account.failure from error
        name = plan.prepared.model.name
        raise BuildError(f"{name}: TVM cannot compile the model: {one_line(error)}") from error
    if account.unasked:
        raise BuildError(
            f"the build never asked for {len(account.unasked)} tasks, first {account.unasked[0]}; "
            f"its module was prepared in another way than when it was split"
        )
    return executable


def _lowering() -> Any:
    """What TVM's compile_relax does once the schedules are applied: no fusing again."""
    passes = relax.transform
    return tvm.transform.Sequential(
        [
            passes.RewriteDataflowReshape(),
            passes.ToNonDataflow(),
            passes.RemovePurityChecking(),
            passes.CallTIRRewrite(),
            passes.StaticPlanBlockMemory(),
            passes.LowerAllocTensor(),
            passes.KillAfterLastUse(),
            passes.LowerRuntimeBuiltin(),
            passes.ComputePrimValue(),
            passes.VMShapeLower(),
            passes.AttachGlobalSymbol(),
        ]
    )


def _require_all_scheduled(
    module: Any, hits: Mapping[ScheduleKey, Schedule], account: BuildAccount
) -> None:
    """Raises ReplayError for a function that did not get its schedule: TVM says nothing."""
    for variable, function in module.functions.items():
        if not isinstance(function, tvm.tirx.PrimFunc):
            continue
        key = account.key_of(variable.name_hint)
        if key is None:
            raise BuildError(f"the build never asked for function {variable.name_hint}")
        if key in hits and not function.attrs.get("tirx.is_scheduled", False):
            raise ReplayError(
                f"record {hits[key].record_id} was not applied to {key}; tune that task again"
            )


def _export(executable: Any, manifest: Manifest, library: Path) -> None:
    """Writes both files, or neither. Raises LinkError and BuildError."""
    try:
        _write(executable, manifest, library)
    except TunebookError:
        raise
    except Exception as error:
        raise BuildError(
            f"the build cannot be written to {library}: {one_line(error)}; check that its folder "
            f"can be written and has room"
        ) from error


def _write(executable: Any, manifest: Manifest, library: Path) -> None:
    with tempfile.TemporaryDirectory(dir=library.parent, prefix=".tunebook-") as folder:
        built = Path(folder) / library.name
        executable.export_library(str(built), fcompile=linker_for(manifest.target))
        described = built.with_suffix(".json")
        manifest.write(described)
        built.replace(library)
        described.replace(library.with_suffix(".json"))


def _manifest(plan: _Plan, library: Path) -> Manifest:
    versions = compiler_versions()
    model = plan.prepared.model
    return Manifest(
        library=library.name,
        model=model.name,
        model_digest=model.digest,
        shapes=model.shapes,
        inputs=_tensors(model.inputs),
        outputs=_tensors(model.outputs),
        target=plan.model.target,
        compiler=plan.model.compiler,
        tvm=versions.tvm,
        tvm_ffi=versions.tvm_ffi,
        llvm=versions.llvm,
        threads=plan.prepared.target.num_cores,
        choices=plan.model.choices,
        tasks=tuple(_task(plan, task) for task in plan.model.tasks),
    )


def _tensors(specs: Sequence[TensorSpec]) -> tuple[ManifestTensor, ...]:
    return tuple(ManifestTensor(name=s.name, dtype=s.dtype, shape=s.shape) for s in specs)


def _task(plan: _Plan, task: Task) -> ManifestTask:
    key = plan.key(task)
    schedule = plan.answer.hits.get(key)
    return ManifestTask(
        key=str(key),
        weight=task.weight,
        record_id=schedule.record_id if schedule else None,
        seconds=schedule.seconds if schedule else None,
        emulated=schedule.emulated if schedule else False,
    )
