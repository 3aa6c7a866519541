"""The front end for .pt2 files, with torch itself: skipped where it is not installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tunebook.cache.errors import ModelError, UsageError
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner.builds.compile_model import compile_model
from tunebook.tuner.importing.frontend import read_model

torch = pytest.importorskip("torch")


class _Classifier(torch.nn.Module):
    """Parameters, a buffer, two inputs and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3)
        self.linear = torch.nn.Linear(8, 5)
        self.register_buffer("scale", torch.full((5,), 2.0))

    def forward(self, image: Any, bias: Any) -> Any:
        features = torch.relu(self.convolution(image)).mean((2, 3))
        return torch.softmax(self.linear(features) * self.scale + bias, -1), features


class _Scaled(torch.nn.Module):
    def forward(self, data: Any, factor: int) -> Any:
        return data * factor


IMAGE = torch.linspace(-1, 1, 3 * 16 * 16).reshape(1, 3, 16, 16)
BIAS = torch.zeros(1, 5)


def saved(path: Path, module: Any, *inputs: Any, **options: Any) -> Path:
    torch.export.save(torch.export.export(module.eval(), inputs, **options), str(path))
    return path


def test_a_built_program_answers_as_torch_does(tmp_path: Path, host: Target) -> None:
    torch.manual_seed(0)
    module = _Classifier()
    path = saved(tmp_path / "model.pt2", module, IMAGE, BIAS)
    model = read_model(path, trust_pickles=True)
    assert [(one.name, one.shape) for one in model.inputs] == [
        ("image", (1, 3, 16, 16)),
        ("bias", (1, 5)),
    ]
    with Store.open(str(tmp_path / "tunebook.db")) as store:
        built = compile_model(model, host, cache=store, on_miss="warn", output=tmp_path / "built")
    found = built.run({"image": IMAGE.numpy(), "bias": BIAS.numpy()})
    for ours, theirs in zip(found, module(IMAGE, BIAS), strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_the_shapes_of_the_program_can_be_repeated_but_not_changed(tmp_path: Path) -> None:
    path = saved(tmp_path / "model.pt2", _Classifier(), IMAGE, BIAS)
    same = read_model(path, {"image": (1, 3, 16, 16)}, trust_pickles=True)
    assert same.shapes == "bias=1,5 image=1,3,16,16"
    with pytest.raises(UsageError, match=r"'image' gives 32 on axis 2"):
        read_model(path, {"image": (1, 3, 32, 16)}, trust_pickles=True)


def test_a_program_of_open_shapes_is_refused(tmp_path: Path) -> None:
    batch = torch.export.Dim("batch", min=2, max=8)
    dynamic = {"image": {0: batch}, "bias": {0: batch}}
    images, biases = IMAGE.repeat(4, 1, 1, 1), BIAS.repeat(4, 1)
    path = saved(tmp_path / "model.pt2", _Classifier(), images, biases, dynamic_shapes=dynamic)
    with pytest.raises(ModelError, match="export it again without dynamic_shapes"):
        read_model(path, trust_pickles=True)


def test_an_input_that_is_no_tensor_is_refused_by_name(tmp_path: Path) -> None:
    path = saved(tmp_path / "model.pt2", _Scaled(), IMAGE, 3)
    with pytest.raises(ModelError, match=r"only tensors can be tuned"):
        read_model(path, trust_pickles=True)


def test_a_file_that_torch_did_not_write_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_text("no archive\n" * 100)
    with pytest.raises(ModelError, match=r"model\.pt2 is not a \.pt2 file") as refused:
        read_model(path, trust_pickles=True)
    assert "\n" not in str(refused.value)
