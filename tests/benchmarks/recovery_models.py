"""What recovery is measured on: heavy tasks of two real models and of a transformer block.

Each task becomes a model of its own, so that a search spends exactly its trials on it.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tunebook.cache.records import Model
from tunebook.cache.targets import Target
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.splitting.prepare import prepare
from tunebook.tuner.splitting.split import split_model

_OPSET = 17
_WIDTH, _HEADS, _HIDDEN = 64, 4, 256


@dataclass(frozen=True)
class Part:
    """Some tasks of a model with these input shapes, by their ranks among all, the heaviest first;
    `length` is the sequence's of the transformer block."""

    model: str
    ranks: tuple[int, ...]
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    length: int = 0


def _transformer(length: int) -> Part:
    return Part("transformer", (0, 1, 2), length=length)


def _magika(batch: int) -> Part:
    return Part("magika", (1, 2), (("bytes", (batch, 2048)),))


def _detector(side: int) -> Part:
    # A 3x3, a 1x1 and a depthwise convolution; the heavier ones take an emulator too long.
    return Part("ppocr_det", (13, 15, 18), (("x", (1, 3, side, side)),))


PARTS = (_transformer(128), _magika(batch=1), _detector(side=224))
PARTS_ALTERED = (_transformer(127), _magika(batch=2), _detector(side=256))
_WHOLE_MAGIKA = replace(_magika(batch=1), ranks=tuple(range(1000)))


def single_tasks(parts: Sequence[Part], target: Target, folder: Path) -> list[Model]:
    """The parts' tasks, each a model; models made here are written into `folder`."""
    return [one for part in parts for one in _tasks(part, _path(part, folder), target)]


def retrained_tasks(target: Target, folder: Path) -> tuple[list[Model], list[Model]]:
    """The tasks of magika whose keys change when all its weights are scaled by 1.01: as they were,
    and as they are then."""
    path, scaled = _path(_WHOLE_MAGIKA, folder), folder / "magika-scaled.onnx"
    onnx.save(_scaled(onnx.load(path), 1.01), scaled)
    before, after = (_tasks(_WHOLE_MAGIKA, one, target) for one in (path, scaled))
    kept = {one.keys[0] for one in before} & {one.keys[0] for one in after}
    return (
        [one for one in before if one.keys[0] not in kept],
        [one for one in after if one.keys[0] not in kept],
    )


def together(models: Sequence[Model]) -> Model:
    """One model of all their tasks, which are of one target and compiler."""
    tasks = tuple(task for model in models for task in model.tasks)
    return replace(models[0], digest=_digest(*(one.digest for one in models)), tasks=tasks)


@cache
def _tasks(part: Part, path: Path, target: Target) -> tuple[Model, ...]:
    model = split_model(prepare(read_model(path, dict(part.shapes)), target))
    tasks = sorted(model.tasks, key=lambda task: (-task.workload.flops, task.workload.key))
    return tuple(
        replace(model, digest=_digest(model.digest, task.workload.key.hash), tasks=(task,))
        for rank, task in enumerate(tasks)
        if rank in part.ranks
    )


def _digest(*texts: str) -> str:
    return hashlib.sha256(" ".join(texts).encode()).hexdigest()


def _path(part: Part, folder: Path) -> Path:
    if part.model == "transformer":
        path = folder / f"transformer-{part.length}.onnx"
        onnx.save(transformer_block(part.length), path)
        return path
    package, pattern = {
        "magika": ("magika", "models/*/model.onnx"),
        "ppocr_det": ("rapidocr_onnxruntime", "models/*_det_infer.onnx"),
    }[part.model]
    spec = importlib.util.find_spec(package)
    assert spec is not None, f"{package} is not installed (tests/models.txt)"
    assert spec.submodule_search_locations is not None
    (path,) = Path(spec.submodule_search_locations[0]).glob(pattern)
    return path


def _scaled(model: Any, factor: float) -> Any:
    """The model with every float weight multiplied: retrained, as far as its keys can tell."""
    for one in model.graph.initializer:
        if one.data_type == TensorProto.FLOAT:
            values = numpy_helper.to_array(one) * np.float32(factor)
            one.CopyFrom(numpy_helper.from_array(values.astype("float32"), one.name))
    return model


class _Graph:
    """Nodes in order, with the weights that they read."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._random = np.random.default_rng(0)

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node of one output, by the name of which it is given."""
        name = f"{kind.lower()}-{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, values: Any) -> str:
        name = f"weight-{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def weight(self, *shape: int) -> str:
        return self.constant(self._random.standard_normal(shape).astype("float32") * 0.1)

    def linear(self, data: str, wide: int, out: int) -> str:
        product = self.add("MatMul", data, self.weight(wide, out))
        return self.add("Add", product, self.weight(out))

    def normalized(self, data: str) -> str:
        return self.add(
            "LayerNormalization", data, self.weight(_WIDTH), self.weight(_WIDTH), axis=-1
        )


def transformer_block(length: int) -> Any:
    """Attention and a perceptron, each with its normalization and residual, on a sequence of
    `length` vectors: an ONNX model."""
    graph = _Graph()
    attended = graph.add("Add", "x", _attention(graph, graph.normalized("x"), length))
    hidden = graph.linear(graph.normalized(attended), _WIDTH, _HIDDEN)
    scaled = graph.add("Mul", hidden, graph.constant(np.float32(2**-0.5)))
    grown = graph.add("Add", graph.add("Erf", scaled), graph.constant(np.float32(1.0)))
    halved = graph.add("Mul", hidden, graph.constant(np.float32(0.5)))
    perceptron = graph.linear(graph.add("Mul", halved, grown), _HIDDEN, _WIDTH)
    graph.nodes.append(helper.make_node("Add", [attended, perceptron], ["y"]))
    declare = partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT)
    shape = [1, length, _WIDTH]
    made = helper.make_graph(
        graph.nodes,
        "block",
        [declare("x", shape=shape)],
        [declare("y", shape=shape)],
        graph.weights,
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)


def _attention(graph: _Graph, data: str, length: int) -> str:
    width = _WIDTH // _HEADS
    split = graph.constant(np.array([1, length, _HEADS, width]))
    joined = graph.constant(np.array([1, length, _WIDTH]))

    def heads(order: list[int]) -> str:
        return graph.add(
            "Transpose",
            graph.add("Reshape", graph.linear(data, _WIDTH, _WIDTH), split),
            perm=order,
        )

    scores = graph.add("MatMul", heads([0, 2, 1, 3]), heads([0, 2, 3, 1]))
    scaled = graph.add("Mul", scores, graph.constant(np.float32(width**-0.5)))
    mixed = graph.add("MatMul", graph.add("Softmax", scaled, axis=-1), heads([0, 2, 1, 3]))
    merged = graph.add("Reshape", graph.add("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
    return graph.linear(merged, _WIDTH, _WIDTH)
