"""The one way from an imported model to the fused functions that are tuned, looked up and built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from tunebook.cache.errors import ModelError
from tunebook.cache.targets import Target
from tunebook.tuner.importing.imported_model import ImportedModel
from tunebook.tuner.llvm_targets import tvm_target
from tunebook.tuner.splitting.choices import LAYOUTS, Choices
from tunebook.tuner.splitting.op_names import Operators, OpNameRecorder, fused_operators
from tunebook.tuner.tvm_compat import attempt, keep_narrow_matmuls

# What a convolution's image and weights are turned to; the model's inputs and outputs stay.
_CHANNELS_LAST = {
    "relax.nn.conv2d": ["NHWC", "OHWI"],
    # TVM can lower no other; left out, it would follow what stands before it.
    "relax.nn.conv2d_transpose": ["NCHW", "IOHW"],
}


@dataclass(frozen=True)
class PreparedModule:
    """A model with its operators fused into functions, none of them scheduled.

    `module` is the Relax IRModule after FuseTIR; `operators` gives each function's operators by
    its name in this module.
    """

    model: ImportedModel
    target: Target
    choices: Choices
    module: Any
    operators: Mapping[str, Operators]


def prepare(model: ImportedModel, target: Target, choices: Choices | None = None) -> PreparedModule:
    """Fuses the model's operators for a target; the same for tune, look-up, key and build.

    These are the passes of TVM's zero pipeline, once: fusing what is fused already loses tasks.
    Raises ModelError when TVM cannot lower the model.
    """
    chosen = choices or Choices()
    recorder = OpNameRecorder()
    tvm_form = tvm_target(target)
    passes = _fuse_passes(recorder, tvm_form, chosen)
    # In silence: TVM warns of every gather that it lowers, whose indices are the model's business.
    both, reason = attempt(lambda: _fuse(model.module, passes, tvm_form))
    if reason:
        raise ModelError(f"{model.name}: TVM cannot lower the model: {reason}")
    fused, module = both
    return PreparedModule(model, target, chosen, module, fused_operators(fused, recorder))


def _fuse(module: Any, passes: Any, target: Any) -> tuple[Any, Any]:
    """The module after FuseOps, where functions still show their operators, and after FuseTIR."""
    with target:
        fused = passes(keep_narrow_matmuls(module))
        return fused, relax.transform.FuseTIR()(fused)


def _fuse_passes(recorder: OpNameRecorder, target: Any, choices: Choices) -> Any:
    return tvm.transform.Sequential(
        [
            relax.transform.DecomposeOpsForInference(),
            relax.transform.CanonicalizeBindings(),
            *_layout_passes(choices),
            # Sorting and scanning have no legalization of their own.
            *relax.pipeline.library_dispatch_passes(target),
            relax.transform.LegalizeOps(recorder.legalizers()),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FoldConstant(),
            relax.transform.FuseOps(),
        ]
    )


def _layout_passes(choices: Choices) -> list[Any]:
    if choices.layout == LAYOUTS[0]:
        return []
    return [
        relax.transform.ConvertLayout(_CHANNELS_LAST),
        relax.transform.Normalize(),
        relax.transform.CanonicalizeBindings(),
    ]
