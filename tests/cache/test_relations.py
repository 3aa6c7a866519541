"""How a stored program is related to a wanted one, and how far it is from it."""

from __future__ import annotations

import pytest
from cache_samples import A76, COMPILER, conv
from hypothesis import given
from hypothesis import strategies as st
from near_cases import LIKENESS, OLD_COMPILER

from tunebook.cache.keys import WorkloadKey
from tunebook.cache.likeness import Likeness
from tunebook.cache.lookup.distances import differences, program_distance, target_distance
from tunebook.cache.lookup.relations import Program, relation_of_programs
from tunebook.cache.misses import Difference, MissReason

NCHW = '{"conv2d.data_layout": "NCHW"}'
NHWC = '{"conv2d.data_layout": "NHWC"}'
NCHW16C = '{"conv2d.data_layout": "NCHW16c"}'


def program(
    op: str = "conv2d",
    buffers: str = "f32[1,64,56,48] -> f32[1,64,56,48]",
    digest: str = "1" * 16,
    **likeness: str,
) -> Program:
    return Program(WorkloadKey(op, buffers, COMPILER, digest), Likeness(**likeness))


@pytest.mark.parametrize(
    ("wanted", "other", "relation"),
    [
        (
            program(attributes=NCHW),
            program(attributes=NHWC, buffers="f32[1,56,48,64] -> f32[1,56,48,64]"),
            MissReason.OTHER_PIPELINE,
        ),
        (program(), program(buffers="f32[1,56,48,64] -> f32[1,56,48,64]"), "other-pipeline"),
        (
            program(attributes=NCHW),
            program(attributes=NCHW, buffers="f32[1,64,48,56] -> f32[1,64,48,56]"),
            MissReason.OTHER_SHAPE,
        ),
        (
            program(attributes=NCHW),
            program(attributes=NCHW16C, buffers="f32[1,4,56,48,16] -> f32[1,4,56,48,16]"),
            MissReason.OTHER_PIPELINE,
        ),
        (
            program(attributes=NCHW),
            program(attributes=NHWC, buffers="f32[2,56,48,64] -> f32[2,56,48,64]"),
            MissReason.OTHER_SHAPE,
        ),
        (
            program(buffers="f32[8,512] -> f32[8,512]"),
            program(buffers="f32[512,8] -> f32[512,8]"),
            MissReason.OTHER_SHAPE,
        ),
        (
            program(op="reshape", buffers="f32[1,64,49] -> f32[64,49]"),
            program(op="reshape", buffers="f32[1,3136] -> f32[64,49]"),
            MissReason.OTHER_SHAPE,
        ),
        (program(), program(op="conv2d+layout_transform", digest="2" * 16), "other-pipeline"),
        (
            program(op="transpose+conv2d"),
            program(buffers="f32[1,56,48,64] -> f32[1,64,56,48]"),
            MissReason.OTHER_PIPELINE,
        ),
        (program(attributes=NCHW), program(attributes=NHWC, digest="2" * 16), "other-pipeline"),
        (program(), program(op="conv2d+add", digest="2" * 16), None),
        (
            program(anchor="a" * 16),
            program(op="conv2d+add", digest="2" * 16, anchor="a" * 16),
            MissReason.OTHER_FUSION,
        ),
        (
            program(anchor="a" * 16),
            program(buffers="f32[1] f32[2] -> f32[3]", anchor="a" * 16),
            MissReason.OTHER_FUSION,
        ),
        (program(structure="5" * 16), program(op="renamed", structure="5" * 16), "other-constants"),
        (program(), program(buffers="f32[1] -> f32[1] f32[1]"), None),
        (program(), program(buffers="f16[1,64,56,48] -> f32[1,64,56,48]"), "other-dtype"),
        (program(), program(buffers="f16[1,64,56,56] -> f32[1,64,56,56]"), None),
        (program(), program(op="softmax", buffers="f16[1] -> f16[1]"), None),
        (program(buffers="?["), program(), None),
    ],
)
def test_a_program_is_related_by_what_differs(
    wanted: Program, other: Program, relation: MissReason | str | None
) -> None:
    assert relation_of_programs(wanted, other) == relation


@pytest.mark.parametrize("text", ["", "{", "null", "[1]", "[" * 100_000])
def test_attributes_that_cannot_be_read_are_unknown(text: str) -> None:
    wanted, other = program(attributes=NCHW), program(digest="2" * 16, attributes=text)
    assert relation_of_programs(wanted, other) is MissReason.OTHER_ATTRIBUTES
    key = wanted.key.on(A76)
    told = differences(key, other.key.on(A76), wanted.likeness, other.likeness)
    assert told == (Difference("workload_hash", "1" * 16, "2" * 16),)


def test_few_constants_are_told_one_by_one_and_many_as_a_list() -> None:
    key, other = conv().key.on(A76), conv(program="2").key.on(A76)
    few = differences(
        key, other, Likeness(constants="[1, 2, 3, 4]"), Likeness(constants="[1, 5, 3, NaN]")
    )
    assert [str(one) for one in few] == [
        "constants[1]: wanted 2, stored 5",
        "constants[3]: wanted 4, stored NaN",
    ]
    many = differences(key, other, Likeness(constants="[1, 2]"), Likeness(constants="[1]"))
    assert many == (Difference("constants", [1, 2], [1]),)


def test_what_an_operator_that_the_other_lacks_is_given_is_not_told() -> None:
    wanted = program(op="conv2d+clip", attributes='{"clip.max": 6, "conv2d.groups": 1}')
    other = program(attributes='{"conv2d.groups": 2}')
    told = differences(wanted.key.on(A76), other.key.on(A76), wanted.likeness, other.likeness)
    assert told == (
        Difference("op", "conv2d+clip", "conv2d"),
        Difference("attributes.conv2d.groups", 1, 2),
    )


@pytest.mark.parametrize(
    "farther",
    [
        "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53 -num-cores=2",
        "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+sve -num-cores=4",
        "llvm -mtriple=x86_64-linux-gnu -mcpu=cortex-a76 -mattr=+dotprod,+neon -num-cores=4",
        "what nobody can read",
    ],
)
def test_a_target_is_farther_the_more_it_differs_and_of_another_architecture_most(
    farther: str,
) -> None:
    near = A76.replace("-num-cores=4", "-num-cores=2")
    assert target_distance(A76, near) < target_distance(A76, farther)


_PROGRAMS = st.builds(
    program,
    op=st.sampled_from(["conv2d", "conv2d+add", "layout_transform+conv2d"]),
    buffers=st.sampled_from(
        ["f32[2,3] -> f32[3]", "f32[3,2] -> f32[3]", "f16[2,3] -> f16[3]", "", "f32[4] -> i64[]"]
    ),
    digest=st.sampled_from(["1" * 16, "2" * 16]),
    attributes=st.sampled_from(["", "{}", NCHW, NHWC]),
    constants=st.sampled_from(["", "[]", "[1]", "[NaN]", "[1, 2]"]),
    structure=st.sampled_from(["", "5" * 16]),
    anchor=st.sampled_from(["", "a" * 16]),
)


@given(_PROGRAMS, _PROGRAMS)
def test_nothing_is_nearer_than_the_thing_itself(wanted: Program, other: Program) -> None:
    known = Program(wanted.key, LIKENESS)
    nearest = program_distance(known, known)
    # What comes last only makes an order of equally near ones.
    assert nearest[:-2] <= program_distance(known, other)[:-2]
    assert nearest[:-2] <= program_distance(known, Program(other.key, LIKENESS))[:-2]


@given(_PROGRAMS, _PROGRAMS, st.sampled_from([COMPILER, OLD_COMPILER]))
def test_programs_that_differ_are_told_apart_and_equal_ones_are_not(
    wanted: Program, other: Program, compiler: str
) -> None:
    mine = wanted.key.on(A76)
    theirs = WorkloadKey(other.key.op, other.key.buffers, compiler, other.key.hash).on(A76)
    told = differences(mine, theirs, wanted.likeness, other.likeness)
    if mine != theirs:
        assert told
    assert differences(mine, mine, wanted.likeness, wanted.likeness) == ()
    assert all(one.wanted != one.nearest for one in told if "constants" not in one.field)
