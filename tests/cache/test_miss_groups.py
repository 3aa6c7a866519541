"""A report tells one cause once, with a count."""

from __future__ import annotations

import pytest
from cache_samples import A53, A76, COMPILER, conv

from tunebook.cache.misses import Difference, Miss, MissReason, ScheduleMissError, groups

_TARGET = Difference("target.mattr", ["+dotprod", "+neon"], ["+neon"])
_MIGRATE = "tunebook migrate MODEL"
_TUNE = "tunebook tune MODEL --more 32"


def miss(
    reason: MissReason, *differences: Difference, size: int = 56, command: str = _MIGRATE
) -> Miss:
    key = conv(size).key.on(A76)
    return Miss(key, reason, conv(size).key.on(A53), differences, "told", command)


def extents(*changes: tuple[int, int, int, int]) -> list[Difference]:
    """Of buffer, axis, wanted and stored extent each."""
    return [Difference(f"buffers[{b}][{axis}]", mine, theirs) for b, axis, mine, theirs in changes]


@pytest.mark.parametrize(
    ("misses", "cause"),
    [
        (
            [miss(MissReason.OTHER_TARGET, _TARGET, size=size) for size in range(61)],
            "other-target (target.mattr: wanted +dotprod,+neon, stored +neon)",
        ),
        (
            [
                miss(MissReason.OTHER_COMPILER, Difference("compiler", COMPILER, "tvm-0.26.0")),
                miss(
                    MissReason.OTHER_COMPILER,
                    Difference("compiler", COMPILER, "tvm-0.26.0"),
                    Difference("constants[0]", 1, 2),
                ),
            ],
            f"other-compiler (compiler: wanted {COMPILER}, stored tvm-0.26.0)",
        ),
        (
            [
                miss(MissReason.OTHER_ATTRIBUTES, Difference("attributes.c.strides", [1], [2])),
                miss(MissReason.OTHER_ATTRIBUTES, Difference("attributes.c.strides", [2], [3])),
            ],
            "other-attributes (attributes.c.strides)",
        ),
        (
            [
                miss(MissReason.OTHER_ATTRIBUTES, Difference("attributes.c.strides", [1], [2])),
                miss(MissReason.OTHER_ATTRIBUTES, Difference("attributes.c.padding", [1], [2])),
            ],
            "other-attributes",
        ),
        (
            [
                miss(MissReason.OTHER_SHAPE, *extents((0, 0, 2, 1), (2, 0, 2, 1))),
                miss(MissReason.OTHER_SHAPE, *extents((1, 0, 2, 1))),
            ],
            "other-shape (axis 0: wanted 2, stored 1)",
        ),
        (
            [
                miss(MissReason.OTHER_SHAPE, *extents((0, 1, 127, 128))),
                miss(MissReason.OTHER_SHAPE, *extents((0, 2, 127, 128), (0, 3, 127, 128))),
            ],
            "other-shape (extent: wanted 127, stored 128)",
        ),
        (
            [
                miss(MissReason.OTHER_SHAPE, *extents((0, 2, 256, 224))),
                miss(MissReason.OTHER_SHAPE, *extents((0, 2, 128, 112))),
            ],
            "other-shape",
        ),
        (
            [
                miss(MissReason.OTHER_DTYPE, Difference("buffers[0].dtype", "f32", "f16")),
                miss(
                    MissReason.OTHER_DTYPE,
                    Difference("buffers[0].dtype", "f32", "f16"),
                    Difference("buffers[1].dtype", "f32", "f16"),
                ),
            ],
            "other-dtype (dtype: wanted f32, stored f16)",
        ),
        (
            [
                miss(MissReason.OTHER_FUSION, _TARGET, Difference("op", "a", "b")),
                miss(MissReason.OTHER_FUSION, _TARGET, Difference("op", "c", "d")),
            ],
            "other-fusion (target.mattr: wanted +dotprod,+neon, stored +neon)",
        ),
        (
            [miss(MissReason.UNVERIFIED, Difference("source", "measured", "import"))],
            "unverified (source: wanted measured, stored import)",
        ),
        ([miss(MissReason.NEVER_TUNED), miss(MissReason.NEVER_TUNED)], "never-tuned"),
    ],
    ids=[
        *("target", "compiler", "attribute", "unlike-attributes", "axis", "extent"),
        *("unlike-extents", "dtype", "two-differences", "imported", "never"),
    ],
)
def test_misses_of_one_cause_are_one_group(misses: list[Miss], cause: str) -> None:
    (group,) = groups(misses)
    assert (group.cause, group.misses) == (cause, tuple(misses))
    assert (group.reason, group.mending_command) == (misses[0].reason, _MIGRATE)


def test_misses_of_other_targets_reasons_or_commands_are_other_groups() -> None:
    other = Difference("target.mattr", [], ["+neon"])
    misses = [
        miss(MissReason.OTHER_TARGET, _TARGET),
        miss(MissReason.OTHER_TARGET, other),
        miss(MissReason.OTHER_SHAPE, _TARGET),
        miss(MissReason.UNVERIFIED, command=_MIGRATE),
        miss(MissReason.UNVERIFIED, command=_TUNE),
    ]
    assert [group.misses for group in groups(misses)] == [(one,) for one in misses]


def test_the_most_frequent_cause_is_told_first() -> None:
    rare, often = miss(MissReason.NEVER_TUNED), miss(MissReason.OTHER_TARGET, _TARGET)
    assert [len(group.misses) for group in groups([rare, often, often])] == [2, 1]


def test_the_error_tells_each_command_once() -> None:
    misses = [
        miss(MissReason.OTHER_SHAPE),
        miss(MissReason.OTHER_TARGET, _TARGET),
        miss(MissReason.NEVER_TUNED, command=_TUNE),
    ]
    assert str(ScheduleMissError(misses)) == (
        "3 schedules are missing: 1 other-shape; 1 other-target (target.mattr: wanted "
        f"+dotprod,+neon, stored +neon); 1 never-tuned; mend with: {_MIGRATE}; then: {_TUNE}"
    )


@pytest.mark.parametrize(
    ("difference", "told"),
    [
        (Difference("target.mattr", [], ["+a", "+b"]), "wanted none, stored +a,+b"),
        (Difference("attributes.c.strides", [2, 2], [1, 1]), "wanted [2, 2], stored [1, 1]"),
        (Difference("attributes.c.axis", None, -1), "wanted none, stored -1"),
        (Difference("attributes.c.keepdims", True, False), "wanted true, stored false"),
        (
            Difference("constants", list(range(64)), [0.5]),
            "wanted [0, 1, 2, 3, 4, 5, 6, 7, ..] (64 items), stored [0.5]",
        ),
    ],
)
def test_a_difference_is_told_in_words(difference: Difference, told: str) -> None:
    assert str(difference) == f"{difference.field}: {told}"
