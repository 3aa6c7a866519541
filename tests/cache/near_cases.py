"""The ways in which a stored key is near a wanted one, nearest first, and what a miss says."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cache_samples import A53, A76, A76_PLAIN, COMPILER, conv

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.likeness import Likeness, LookupHints
from tunebook.cache.misses import Difference, MissReason
from tunebook.cache.records import Workload

FEATURES = "f00dfeedf00dfeed"
OLD_COMPILER = "tvm-0.26.0+llvm-21"
LIKENESS = Likeness(
    structure="5" * 16,
    anchor="a" * 16,
    attributes='{"conv2d.data_layout": "NCHW", "conv2d.strides": [1, 1]}',
    constants="[0.5, 1.0]",
)
OP = "conv2d+add+relu"
NHWC = "f32[1,56,56,64] f32[64,3,3,64] -> f32[1,56,56,64]"
ELSEWHERE = f"; or, where that fits the board, use --target '{A53}'"


def made_like(workload: Workload, **likeness: str) -> Workload:
    """The workload, as like the wanted one as is not said otherwise."""
    return replace(workload, likeness=replace(LIKENESS, **likeness))


def by_compiler(compiler: str, workload: Workload) -> Workload:
    return replace(workload, key=replace(workload.key, compiler=compiler))


def with_buffers(buffers: str, workload: Workload) -> Workload:
    return replace(workload, key=replace(workload.key, buffers=buffers))


WANTED = made_like(conv(56))
WANTED_KEY = WANTED.key.on(A76)
# What a look-up knows of the wanted workload, which was never stored.
HINTS = LookupHints({WANTED.key: LIKENESS}, {A76: FEATURES, A76_PLAIN: FEATURES})


@dataclass(frozen=True)
class NearCase:
    """A stored workload and its target, and what a miss of `WANTED_KEY` says where it is all that
    is stored."""

    name: str
    stored: Workload
    reason: MissReason
    told: str
    differences: tuple[Difference, ...]
    target: str = A76

    @property
    def key(self) -> ScheduleKey:
        return self.stored.key.on(self.target)


_A53 = (
    Difference("target.mcpu", "cortex-a76", "cortex-a53"),
    Difference("target.mattr", ["+dotprod", "+neon"], ["+neon"]),
)
_A53_TOLD = (
    "target.mcpu: wanted cortex-a76, stored cortex-a53; "
    "target.mattr: wanted +dotprod,+neon, stored +neon"
)

NEAR_CASES = [
    NearCase(
        name="another text of the target",
        stored=WANTED,
        target=A76_PLAIN,
        reason=MissReason.EQUIVALENT_TARGET,
        told="under another text for the same features of LLVM: target.mattr: wanted "
        f"+dotprod,+neon, stored none; or, where that fits the board, use --target '{A76_PLAIN}'",
        differences=(Difference("target.mattr", ["+dotprod", "+neon"], []),),
    ),
    NearCase(
        name="another compiler",
        stored=by_compiler(OLD_COMPILER, made_like(conv(program="old"), structure="6" * 16)),
        reason=MissReason.OTHER_COMPILER,
        told=f"by another compiler: compiler: wanted {COMPILER}, stored {OLD_COMPILER}",
        differences=(Difference("compiler", COMPILER, OLD_COMPILER),),
    ),
    NearCase(
        name="other constants",
        stored=made_like(conv(program="retrained"), constants="[0.5, 1.01]"),
        reason=MissReason.OTHER_CONSTANTS,
        told="with other constants: constants[1]: wanted 1.0, stored 1.01",
        differences=(Difference("constants[1]", 1.0, 1.01),),
    ),
    NearCase(
        name="other attributes",
        stored=made_like(
            conv(program="strides"),
            structure="7" * 16,
            anchor="b" * 16,
            attributes='{"conv2d.data_layout": "NCHW", "conv2d.strides": [2, 2]}',
        ),
        reason=MissReason.OTHER_ATTRIBUTES,
        told="with other attributes: attributes.conv2d.strides: wanted [1, 1], stored [2, 2]",
        differences=(Difference("attributes.conv2d.strides", [1, 1], [2, 2]),),
    ),
    NearCase(
        name="another layout",
        stored=with_buffers(
            NHWC,
            made_like(
                conv(program="layout"),
                structure="8" * 16,
                anchor="c" * 16,
                attributes='{"conv2d.data_layout": "NHWC", "conv2d.strides": [1, 1]}',
            ),
        ),
        reason=MissReason.OTHER_PIPELINE,
        told="in another layout or packing: "
        "attributes.conv2d.data_layout: wanted NCHW, stored NHWC; "
        "buffers[0][1]: wanted 64, stored 56; buffers[0][3]: wanted 56, stored 64; "
        "buffers[1][1]: wanted 64, stored 3; buffers[1][3]: wanted 3, stored 64; "
        "buffers[2][1]: wanted 64, stored 56; buffers[2][3]: wanted 56, stored 64",
        differences=(
            Difference("attributes.conv2d.data_layout", "NCHW", "NHWC"),
            Difference("buffers[0][1]", 64, 56),
            Difference("buffers[0][3]", 56, 64),
            Difference("buffers[1][1]", 64, 3),
            Difference("buffers[1][3]", 3, 64),
            Difference("buffers[2][1]", 64, 56),
            Difference("buffers[2][3]", 56, 64),
        ),
    ),
    NearCase(
        name="another fusion",
        stored=with_buffers(
            "f32[1,64,56,56] f32[64,64,3,3] f32[1,64,56,56] -> f32[1,64,56,56]",
            made_like(conv(op="conv2d+add+add+relu"), structure="9" * 16),
        ),
        reason=MissReason.OTHER_FUSION,
        told=f"fused with other operators: op: wanted {OP}, stored conv2d+add+add+relu; "
        "buffers: wanted 3, stored 4",
        differences=(
            Difference("op", OP, "conv2d+add+add+relu"),
            Difference("buffers", 3, 4),
        ),
    ),
    NearCase(
        name="another target",
        stored=WANTED,
        target=A53,
        reason=MissReason.OTHER_TARGET,
        told=f"for another target: {_A53_TOLD}{ELSEWHERE}",
        differences=_A53,
    ),
    NearCase(
        name="another shape",
        stored=with_buffers(
            "f32[2,64,56,56] f32[64,64,3,3] -> f32[2,64,56,56]",
            made_like(conv(program="batch"), structure="d" * 16, anchor="d" * 16),
        ),
        reason=MissReason.OTHER_SHAPE,
        told="at another shape: buffers[0][0]: wanted 1, stored 2; "
        "buffers[2][0]: wanted 1, stored 2",
        differences=(Difference("buffers[0][0]", 1, 2), Difference("buffers[2][0]", 1, 2)),
    ),
    NearCase(
        name="another dtype",
        stored=made_like(conv(dtype="f16"), structure="e" * 16, anchor="e" * 16),
        reason=MissReason.OTHER_DTYPE,
        told="with other dtypes: buffers[0].dtype: wanted f32, stored f16; "
        "buffers[1].dtype: wanted f32, stored f16; buffers[2].dtype: wanted f32, stored f16",
        differences=tuple(
            Difference(f"buffers[{number}].dtype", "f32", "f16") for number in range(3)
        ),
    ),
]

_OLD = Difference("compiler", COMPILER, OLD_COMPILER)
_OLD_TOLD = f"compiler: wanted {COMPILER}, stored {OLD_COMPILER}"
# Two things differ at once: the reason is the program's, or the farther one where the program is
# the same but for compiler and scalars.
TWO_DIFFERENCES = [
    NearCase(
        name="another compiler, for an equivalent target",
        stored=by_compiler(OLD_COMPILER, made_like(conv(program="old"))),
        target=A76_PLAIN,
        reason=MissReason.OTHER_COMPILER,
        told="by another compiler: target.mattr: wanted +dotprod,+neon, stored none; " + _OLD_TOLD,
        differences=(Difference("target.mattr", ["+dotprod", "+neon"], []), _OLD),
    ),
    NearCase(
        name="another compiler, and other constants",
        stored=by_compiler(OLD_COMPILER, made_like(conv(program="old"), constants="[0.5, 2]")),
        reason=MissReason.OTHER_COMPILER,
        told=f"by another compiler: {_OLD_TOLD}; constants[1]: wanted 1.0, stored 2",
        differences=(_OLD, Difference("constants[1]", 1.0, 2)),
    ),
    NearCase(
        name="another compiler, and other attributes",
        stored=by_compiler(
            OLD_COMPILER,
            made_like(conv(program="old"), attributes='{"conv2d.data_layout": "NCHW"}'),
        ),
        reason=MissReason.OTHER_ATTRIBUTES,
        told=f"with other attributes: {_OLD_TOLD}; "
        "attributes.conv2d.strides: wanted [1, 1], stored none",
        differences=(_OLD, Difference("attributes.conv2d.strides", [1, 1], None)),
    ),
    NearCase(
        name="another compiler, for another target",
        stored=by_compiler(OLD_COMPILER, made_like(conv(program="old"))),
        target=A53,
        reason=MissReason.OTHER_TARGET,
        told=f"for another target: {_A53_TOLD}; {_OLD_TOLD}",
        differences=(*_A53, _OLD),
    ),
    NearCase(
        name="another fusion, for another target",
        stored=made_like(conv(op="conv2d+add"), structure="9" * 16),
        target=A53,
        reason=MissReason.OTHER_FUSION,
        told=f"fused with other operators: {_A53_TOLD}; op: wanted {OP}, stored conv2d+add",
        differences=(*_A53, Difference("op", OP, "conv2d+add")),
    ),
    NearCase(
        name="another shape, for another target",
        stored=made_like(conv(55), structure="d" * 16, anchor="d" * 16),
        target=A53,
        reason=MissReason.OTHER_SHAPE,
        told=f"at another shape: {_A53_TOLD}; "
        "buffers[0][2]: wanted 56, stored 55; buffers[0][3]: wanted 56, stored 55; "
        "buffers[2][2]: wanted 56, stored 55; buffers[2][3]: wanted 56, stored 55",
        differences=(
            *_A53,
            *(Difference(f"buffers[{n}][{axis}]", 56, 55) for n in (0, 2) for axis in (2, 3)),
        ),
    ),
    NearCase(
        name="another shape, by another compiler",
        stored=by_compiler(OLD_COMPILER, made_like(conv(57))),
        reason=MissReason.OTHER_SHAPE,
        told=f"at another shape: {_OLD_TOLD}; "
        "buffers[0][2]: wanted 56, stored 57; buffers[0][3]: wanted 56, stored 57; "
        "buffers[2][2]: wanted 56, stored 57; buffers[2][3]: wanted 56, stored 57",
        differences=(
            _OLD,
            *(Difference(f"buffers[{n}][{axis}]", 56, 57) for n in (0, 2) for axis in (2, 3)),
        ),
    ),
    NearCase(
        name="the same program, its op named otherwise",
        stored=replace(conv(), key=replace(WANTED.key, op="conv2d+add+maximum")),
        reason=MissReason.OTHER_CONSTANTS,
        told=f"under another name of the same program: op: wanted {OP}, stored conv2d+add+maximum",
        differences=(Difference("op", OP, "conv2d+add+maximum"),),
    ),
    NearCase(
        name="another program that no attribute tells",
        stored=conv(program="who knows"),
        reason=MissReason.OTHER_ATTRIBUTES,
        told="as another program of the same buffers: workload_hash: "
        f"wanted {WANTED.key.hash}, stored {conv(program='who knows').key.hash}",
        differences=(
            Difference("workload_hash", WANTED.key.hash, conv(program="who knows").key.hash),
        ),
    ),
]
