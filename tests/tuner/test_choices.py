"""Choices of the pipeline: written, read, kept with the model, and repeated by its build."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime
import pytest

from tunebook.cache.errors import UsageError
from tunebook.cache.records import Candidate
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner.builds.compile_model import compile_model
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.importing.imported_model import ImportedModel
from tunebook.tuner.splitting.choices import Choices
from tunebook.tuner.splitting.prepare import prepare
from tunebook.tuner.splitting.split import split, split_model
from tunebook.tuner.splitting.stored_choices import stored_choices

Read = Callable[..., ImportedModel]
NHWC = Choices(layout="NHWC")


@pytest.mark.parametrize(("choices", "text"), [(Choices(), ""), (NHWC, "layout=NHWC")])
def test_choices_are_read_as_they_were_written(choices: Choices, text: str) -> None:
    assert str(choices) == text
    assert Choices.parse(text) == choices


@pytest.mark.parametrize("text", ["layout=NCHW4c", "packing=1"])
def test_a_choice_of_another_version_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match=text.removeprefix("layout=")):
        Choices.parse(text)


def test_images_between_convolutions_lie_as_chosen(read: Read, host: Target) -> None:
    tasks = split(prepare(read("convolution_after_others"), host, NHWC))
    attributes = [task.workload.likeness.attributes for task in tasks]
    convolutions = [text for text in attributes if "conv2d" in text]
    assert len(convolutions) == 2
    assert all('"conv2d.data_layout": "NHWC"' in text for text in convolutions)
    (pool,) = [text for text in attributes if "max_pool2d" in text]
    assert '"max_pool2d.layout": "NHWC"' in pool


def test_a_transposed_convolution_stays_as_tvm_can_lower_it(read: Read, host: Target) -> None:
    tasks = split(prepare(read("upscaled"), host, NHWC))
    layouts = {
        name: layout
        for task in tasks
        for name, layout in json.loads(task.workload.likeness.attributes).items()
        if name.endswith("data_layout")
    }
    assert layouts == {"conv2d.data_layout": "NHWC", "conv2d_transpose.data_layout": "NCHW"}


def test_a_model_without_convolutions_has_the_same_keys_in_either_layout(
    read: Read, host: Target
) -> None:
    model = read("integer_dense")
    assert split(prepare(model, host, NHWC)) == split(prepare(model, host))


def test_a_model_that_was_never_tuned_gets_the_defaults(
    read: Read, host: Target, store: Store
) -> None:
    assert stored_choices(store, read("convolution"), host) == Choices()


def test_a_build_repeats_the_layout_that_the_model_was_tuned_with(
    onnx_models: ModuleType,
    host: Target,
    store: Store,
    fill: Callable[..., None],
    inputs_for: Callable[[ImportedModel], dict[str, Any]],
    tmp_path: Path,
) -> None:
    path = onnx_models.save(tmp_path / "model.onnx", onnx_models.upscaled())
    model = read_model(path)
    tuned = split_model(prepare(model, host, NHWC))
    assert tuned.choices == "layout=NHWC"
    untouched = [Candidate("[[], []]", task.workload.key.hash) for task in tuned.tasks]
    fill(store, tuned, untouched)
    built = compile_model(model, host, cache=store, output=tmp_path / "built")
    assert built.manifest.choices == "layout=NHWC"
    assert built.hits == len(tuned.tasks)
    inputs = inputs_for(model)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for ours, theirs in zip(built.run(inputs), session.run(None, inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
