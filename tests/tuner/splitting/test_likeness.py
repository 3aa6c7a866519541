"""What programs are like: what agrees where, and that nothing of it depends on the model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tvm import te, tirx

from tunebook.cache.likeness import Likeness
from tunebook.cache.targets import Target
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.importing.imported_model import ImportedModel
from tunebook.tuner.splitting.likeness import likeness_of
from tunebook.tuner.splitting.prepare import PreparedModule, prepare
from tunebook.tuner.splitting.split import normalized, split

Read = Callable[..., ImportedModel]
LikenessOf = Callable[..., Likeness]


@pytest.fixture
def likeness(read: Read, host: Target) -> LikenessOf:
    """The likeness of the only task of one of our models."""

    def of(name: str, **options: Any) -> Likeness:
        (task,) = split(prepare(read(name, **options), host))
        return task.workload.likeness

    return of


def elementwise(function: Callable[[Any], Any], dtype: str = "float32") -> Likeness:
    x = te.placeholder((4, 6), dtype, name="x")
    result = te.compute((4, 6), lambda i, j: function(x[i, j]), name="y")
    return likeness_of(normalized(te.create_prim_func([x, result])), "")


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("scaled", {"factor": 2.0}, {"factor": 2.02}),
        ("dequantised", {"zero": 3}, {"zero": 5}),
    ],
    ids=["a float", "an integer: a zero point"],
)
def test_programs_apart_in_constants_alone_have_one_structure(
    name: str, one: dict[str, Any], other: dict[str, Any], likeness: LikenessOf
) -> None:
    first, second = likeness(name, **one), likeness(name, **other)
    assert first.structure == second.structure
    assert first.constants != second.constants
    assert first.attributes == second.attributes


def test_all_that_is_new_in_a_retrained_model_has_the_structure_of_the_old(
    published: dict[str, Any],
    prepared: Callable[[str], PreparedModule],
    host: Target,
    onnx_models: ModuleType,
    tmp_path: Path,
) -> None:
    magika = published["magika"]
    path = onnx_models.save_retrained(magika.path, tmp_path / "retrained.onnx", factor=1.01)
    old = {task.workload.key.hash: task.workload for task in split(prepared("magika"))}
    tasks = split(prepare(read_model(path, magika.shapes), host))
    new = [task.workload for task in tasks if task.workload.key.hash not in old]
    structures = {workload.likeness.structure: workload for workload in old.values()}
    assert len(new) == 8
    assert all(workload.likeness.structure in structures for workload in new)
    assert all(
        workload.likeness.constants != structures[workload.likeness.structure].likeness.constants
        for workload in new
    )


def test_constants_are_as_short_as_their_precision_allows() -> None:
    found = elementwise(lambda x: x * 1.01 + 1e-6)
    assert found.constants == "[1.01, 1e-06]"


def test_constants_are_listed_in_the_order_of_the_program() -> None:
    found = elementwise(lambda x: tirx.Select(x > 1.5, x * 2.5, x + 0.5))
    assert json.loads(found.constants) == [1.5, 2.5, 0.5]


def test_what_is_no_number_in_json_is_listed_by_name() -> None:
    found = elementwise(lambda x: tirx.Select(x > 0.5, x, tirx.FloatImm("float32", float("-inf"))))
    assert json.loads(found.constants) == [0.5, "-inf"]


def test_a_program_full_of_constants_lists_the_first_64() -> None:
    def polynomial(x: Any) -> Any:
        result = x
        for number in range(50):
            result = result * x + float(number)
        return result * (x + 0.5) + sum(x * float(n) for n in range(2, 30))

    assert len(json.loads(elementwise(polynomial).constants)) == 64


def test_an_extent_a_stride_and_a_bound_of_padding_are_no_constants(likeness: LikenessOf) -> None:
    found = likeness("residual")
    # The sum starts at 0, the border is 0, and relu cuts at 0.
    assert json.loads(found.constants) == [0.0, 0.0, 0.0]
    assert found.structure != likeness("residual", stride=2).structure


def test_what_an_average_divides_by_at_a_border_is_no_constant(likeness: LikenessOf) -> None:
    # Both the sum and the border are 0.
    assert json.loads(likeness("averaged").constants) == [0.0, 0.0]


def test_what_else_is_fused_to_a_convolution_leaves_its_anchor(likeness: LikenessOf) -> None:
    one, other = likeness("residual", adds=1), likeness("residual", adds=2)
    assert one.anchor
    assert one.anchor == other.anchor
    assert one.structure != other.structure


def test_another_stride_is_another_anchor(likeness: LikenessOf) -> None:
    assert likeness("residual").anchor != likeness("residual", stride=2).anchor


def test_a_program_without_a_reduction_has_no_anchor(likeness: LikenessOf) -> None:
    assert likeness("scaled").anchor == ""


def test_attributes_are_told_by_operator_defaults_included(likeness: LikenessOf) -> None:
    assert json.loads(likeness("residual").attributes) == {
        "conv2d.strides": [1, 1],
        "conv2d.padding": [1, 1, 1, 1],
        "conv2d.dilation": [1, 1],
        "conv2d.groups": 1,
        "conv2d.data_layout": "NCHW",
        "conv2d.kernel_layout": "OIHW",
        "conv2d.out_layout": "NCHW",
    }


def test_an_operator_that_comes_again_is_numbered(likeness: LikenessOf) -> None:
    assert (
        likeness("cast_twice").attributes == '{"cast#2.dtype": "float32", "cast.dtype": "float16"}'
    )
