"""What TVM's search space for a target does after tiling, and which instructions it may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.target import codegen

from tunebook.tuner.tvm_compat import load_cpu_intrinsics

# The features of LLVM that each of TVM's CPU intrinsics needs (tvm/s_tir/tensor_intrin). Where
# they are missing, code generation ends the process.
_FEATURES = {
    "dot_4x4_i8i8s32_neon": {"neon"},
    "dot_4x4_i8i8s32_sdot": {"neon", "dotprod"},
    "dot_4x4_u8u8u32_udot": {"neon", "dotprod"},
    "dot_4x4_u8u8i32_hdot": {"neon", "dotprod"},
    "dot_16x4_vnni": {"avx512f", "avx512vnni"},
    "dot_16x4_avx512": {"avx512f", "avx512bw"},
}
# Intrinsics that compute the same, the better one first.
_EQUAL = (
    ("dot_4x4_i8i8s32_sdot", "dot_4x4_i8i8s32_neon"),
    ("dot_16x4_vnni", "dot_16x4_avx512"),
)


@dataclass(frozen=True)
class TargetRules:
    """`postprocs` are TVM's postprocessors for the target, in order, `limits` the values that its
    search space gives the annotations of the root block, by key, `intrinsics` those that LLVM can
    generate code for."""

    postprocs: tuple[Any, ...]
    limits: dict[str, int]
    intrinsics: frozenset[str]

    def finish(self, schedule: Schedule) -> bool:
        """Applies the postprocessors; whether all of them accept the schedule."""
        schedule.enter_postproc()
        return all(one.apply(schedule) for one in self.postprocs)

    def counterpart(self, intrinsic: str) -> str | None:
        """The best intrinsic that computes the same and that the target has, if it is another."""
        for equal in _EQUAL:
            if intrinsic in equal:
                usable = [one for one in equal if one in self.intrinsics]
                return usable[0] if usable and usable[0] != intrinsic else None
        return None


def rules_for(module: Any, target: Any) -> TargetRules:
    """The rules of a TVM target, as its search space for this module would use them."""
    load_cpu_intrinsics()
    context = ms.TuneContext(
        mod=module, target=target, space_generator="post-order-apply", num_threads=1
    )
    features = set(codegen.llvm_get_cpu_features(target))
    return TargetRules(
        postprocs=tuple(context.space_generator.postprocs),
        limits=_limits(context.space_generator.sch_rules, int(target.attrs["num-cores"])),
        intrinsics=frozenset(name for name, needed in _FEATURES.items() if needed <= features),
    )


def _limits(rules: Any, cores: int) -> dict[str, int]:
    for rule in rules:
        if isinstance(rule, ms.schedule_rule.ParallelizeVectorizeUnroll):
            return {
                "meta_schedule.parallel": int(rule.max_jobs_per_core) * cores,
                "meta_schedule.vectorize": int(rule.max_vectorize_extent),
            }
    return {}
