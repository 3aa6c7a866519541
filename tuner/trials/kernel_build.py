"""One kernel's way from a trace to a shared library: replay, features, compile, link."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

from tunebook.cache.errors import TunebookError
from tunebook.cache.records import ErrorClass
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.llvm_targets import tvm_target
from tunebook.tuner.one_line import one_line
from tunebook.tuner.traces.replay import replay
from tunebook.tuner.trials.linking import LinkError, linker_for
from tunebook.tuner.trials.scratch_memory import takes_too_much
from tunebook.tuner.trials.trials import BuildFailure, BuildJob, BuiltLibrary, CannotBuild

# What is kept parsed: a round works on one program, overlapping rounds on a few.
_KEPT = 64


def build(job: BuildJob) -> BuiltLibrary | BuildFailure | CannotBuild:
    """Schedules, compiles and links one program; whatever is raised becomes a BuildFailure, or
    CannotBuild where it is this machine's fault."""
    began = time.monotonic()
    try:
        return _build(job, began)
    except LinkError as error:
        return CannotBuild(str(error))
    except OSError as error:
        return CannotBuild(f"nothing can be built in {job.path.parent}: {one_line(error)}")
    except TunebookError as error:
        text = str(error)
    except Exception as error:  # TVM raises whatever it likes, and all of it is the candidate's
        text = one_line(error)
    return BuildFailure(ErrorClass.BUILD, text, time.monotonic() - began)


def _build(job: BuildJob, began: float) -> BuiltLibrary | BuildFailure:
    request = job.request
    target = _target(request.target)
    mod, features = _program(request.tir), None
    if request.trace is not None:
        schedule = replay(mod, request.trace)
        excess = takes_too_much(schedule.mod, mod)
        if excess:
            return BuildFailure(ErrorClass.BUILD, excess, time.monotonic() - began)
        mod, features = schedule.mod, _features(schedule, target)
    name = module_hash(mod)
    if request.module_hash not in (None, name):
        text = (
            f"the trace schedules to module {name} and not to {request.module_hash}, which it was "
            "recorded with: another program, or another compiler"
        )
        return BuildFailure(ErrorClass.BUILD, text, time.monotonic() - began)
    lowered = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod)
    compiled = tvm.tirx.build(lowered, target=target)
    compiled.export_library(str(job.path), fcompile=linker_for(request.target))
    return BuiltLibrary(
        path=job.path,
        module_hash=name,
        features=features.tobytes() if features is not None else None,
        feature_columns=features.shape[1] if features is not None else 0,
        seconds=time.monotonic() - began,
    )


def _features(schedule: Any, target: Any) -> Any:
    """The cost model's input: float32, one row per store."""
    context = ms.TuneContext(mod=schedule.mod, target=target, num_threads=1)
    candidate = ms.MeasureCandidate(schedule, [])
    (found,) = ms.feature_extractor.PerStoreFeature().extract_from(context, [candidate])
    return found.numpy().astype("<f4")


@lru_cache(maxsize=_KEPT)
def _program(tir: str) -> Any:
    return tvm.ir.load_json(tir)


@lru_cache(maxsize=_KEPT)
def _target(text: str) -> Any:
    return tvm_target(text)
