"""The one way from an imported model to the fused functions that are tuned, looked up and built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from tunebook.cache.errors import ModelError
from tunebook.cache.targets import Target
from tunebook.tuner.imported_model import ImportedModel
from tunebook.tuner.llvm_targets import tvm_target
from tunebook.tuner.op_names import OpNameRecorder, fused_names
from tunebook.tuner.tvm_compat import attempt, keep_narrow_matmuls


@dataclass(frozen=True)
class Choices:
    """What may be chosen about the pipeline; it changes the workloads, so a build repeats it.

    Nothing can be chosen yet.
    """

    def __str__(self) -> str:
        """The canonical text: empty for the defaults."""
        return ""


@dataclass(frozen=True)
class PreparedModule:
    """A model with its operators fused into functions, none of them scheduled.

    `module` is the Relax IRModule after FuseTIR; `op_names` gives each function's op text by the
    function's name in this module.
    """

    model: ImportedModel
    target: Target
    choices: Choices
    module: Any
    op_names: Mapping[str, str]


def prepare(model: ImportedModel, target: Target, choices: Choices | None = None) -> PreparedModule:
    """Fuses the model's operators for a target; the same for tune, look-up, key and build.

    These are the passes of TVM's zero pipeline, once: fusing what is fused already loses tasks.
    Raises ModelError when TVM cannot lower the model.
    """
    recorder = OpNameRecorder()
    # In silence: TVM warns of every gather that it lowers, whose indices are the model's business.
    both, reason = attempt(lambda: _fuse(model.module, recorder, tvm_target(target)))
    if reason:
        raise ModelError(f"{model.name}: TVM cannot lower the model: {reason}")
    fused, module = both
    names = fused_names(fused, recorder)
    return PreparedModule(model, target, choices or Choices(), module, names)


def _fuse(module: Any, recorder: OpNameRecorder, target: Any) -> tuple[Any, Any]:
    """The module after FuseOps, where functions still show their operators, and after FuseTIR."""
    with target:
        fused = _fuse_passes(recorder, target)(keep_narrow_matmuls(module))
        return fused, relax.transform.FuseTIR()(fused)


def _fuse_passes(recorder: OpNameRecorder, target: Any) -> Any:
    return tvm.transform.Sequential(
        [
            relax.transform.DecomposeOpsForInference(),
            relax.transform.CanonicalizeBindings(),
            # Sorting and scanning have no legalization of their own.
            *relax.pipeline.library_dispatch_passes(target),
            relax.transform.LegalizeOps(recorder.legalizers()),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FoldConstant(),
            relax.transform.FuseOps(),
        ]
    )
