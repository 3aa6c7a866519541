"""Input shapes as people give them."""

from __future__ import annotations

import pytest

from tunebook.cache.errors import ModelError, UsageError
from tunebook.tuner.importing.imported_model import TensorSpec
from tunebook.tuner.importing.shapes import (
    DeclaredInput,
    fix_shapes,
    parse_shape_option,
    parse_shape_options,
    shapes_text,
)

IMAGE = DeclaredInput("x", ("batch", 3, "?", "?"))
FIXED = DeclaredInput("mask", (1, 8))


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("x=1,3,224,224", ("x", (1, 3, 224, 224))),
        ("x= 1, 3", ("x", (1, 3))),
        ("serving:0=7", ("serving:0", (7,))),
        ("a=b=1,2", ("a=b", (1, 2))),
    ],
)
def test_a_shape_option_names_an_input_and_its_sizes(
    text: str, parsed: tuple[str, tuple[int, ...]]
) -> None:
    assert parse_shape_option(text) == parsed


@pytest.mark.parametrize(
    "text", ["", "x", "x=", "=1,2", "x=1,,2", "x=1,two", "x=1.5", "x=1,0", "x=-1,3"]
)
def test_a_malformed_shape_option_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(UsageError, match="--shape"):
        parse_shape_option(text)


def test_an_input_may_be_given_once() -> None:
    with pytest.raises(UsageError, match="twice"):
        parse_shape_options(["x=1,2", "x=1,3"])


def test_given_shapes_fill_what_the_model_leaves_open() -> None:
    shapes = fix_shapes([IMAGE, FIXED], {"x": (1, 3, 32, 32)})
    assert shapes == {"x": (1, 3, 32, 32), "mask": (1, 8)}


def test_a_shape_that_repeats_a_fixed_one_is_accepted() -> None:
    assert fix_shapes([FIXED], {"mask": (1, 8)}) == {"mask": (1, 8)}


def test_an_input_of_unknown_rank_takes_any_shape() -> None:
    assert fix_shapes([DeclaredInput("x", None)], {"x": (2, 3)}) == {"x": (2, 3)}


@pytest.mark.parametrize(
    ("declared", "named"),
    [
        ([IMAGE], ["x[batch,3,?,?]", "--shape x=N,3,N,N"]),
        ([IMAGE, DeclaredInput("n", ("n",))], ["--shape x=N,3,N,N", "--shape n=N"]),
        ([DeclaredInput("x", None)], ["unknown rank", "--shape x=N,..."]),
    ],
)
def test_open_dimensions_are_named_with_the_option_to_give(
    declared: list[DeclaredInput], named: list[str]
) -> None:
    with pytest.raises(ModelError) as refused:
        fix_shapes(declared, {})
    assert all(text in str(refused.value) for text in named)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"x": (1, 3, 32)}, ["'x'", "3 dimensions", "4"]),
        ({"x": (1, 4, 32, 32)}, ["'x'", "4 on axis 1", "fixes 3"]),
        ({"x": (1, 3, 32, 0)}, ["'x'", "0", "positive"]),
        ({"y": (1, 3, 32, 32)}, ["'y'", "inputs are: x, mask"]),
    ],
)
def test_a_shape_that_does_not_fit_the_model_is_refused(
    given: dict[str, tuple[int, ...]], named: list[str]
) -> None:
    with pytest.raises(UsageError) as refused:
        fix_shapes([IMAGE, FIXED], given)
    assert all(text in str(refused.value) for text in named)


def test_the_canonical_text_is_sorted_by_name() -> None:
    inputs = [TensorSpec("b", "float32", (2,)), TensorSpec("a", "int64", (1, 3))]
    assert shapes_text(inputs) == "a=1,3 b=2"
