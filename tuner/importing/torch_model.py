"""The front end for `.pt2` files of torch.export, where torch is installed."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tunebook.cache.errors import ModelError
from tunebook.tuner.importing.imported_model import ImportedModel, TensorSpec
from tunebook.tuner.importing.relax_results import result_tensors
from tunebook.tuner.importing.shapes import DeclaredInput, fix_shapes, shapes_text
from tunebook.tuner.one_line import one_line


def read_torch_model(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> ImportedModel:
    """Imports an exported program; **unpickles the file**, so call it on trusted files only.

    torch.export fixes shapes when it exports, so `shapes` may only repeat them. Raises ModelError.
    """
    torch = _torch()
    try:
        # torch warns of its own deprecated calls.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.load(str(path))
    except Exception as error:
        raise ModelError(
            f"{path} is not a .pt2 file that torch reads: {one_line(error)}"
        ) from error
    inputs = _inputs(program, path)
    fixed = fix_shapes([one for one, _ in inputs], shapes)
    specs = tuple(TensorSpec(one.name, dtype, fixed[one.name]) for one, dtype in inputs)
    module = _import(program, path)
    return ImportedModel(
        name=path.name,
        module=module,
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
        shapes=shapes_text(specs),
        inputs=specs,
        outputs=result_tensors(module, _output_names(program)),
    )


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise ModelError(
            "reading a .pt2 file needs torch, which is not installed; "
            "run: pip install torch, or export the model as ONNX"
        ) from None
    return torch


def _inputs(program: Any, path: Path) -> list[tuple[DeclaredInput, str]]:
    values: dict[Any, Any] = {
        node.name: node.meta["val"] for node in program.graph.nodes if "val" in node.meta
    }
    found = []
    for name in program.graph_signature.user_inputs:
        # A number is its own name here.
        value = values.get(name)
        if value is None or not hasattr(value, "shape"):
            raise ModelError(
                f"{path}: its input {name!r} is no tensor, and only tensors can be tuned; export "
                f"it again with that input fixed inside the module"
            )
        # A symbolic size is no int; its text is its name.
        dimensions = tuple(d if isinstance(d, int) else str(d) for d in value.shape)
        found.append((DeclaredInput(name, dimensions), str(value.dtype).removeprefix("torch.")))
    if any(not declared.is_fixed for declared, _ in found):
        raise ModelError(
            f"{path}: the exported program has dynamic shapes; export it again without "
            f"dynamic_shapes"
        )
    return found


def _import(program: Any, path: Path) -> Any:
    from tvm.relax.frontend.torch import from_exported_program

    try:
        return from_exported_program(program, unwrap_unit_return_tuple=True)
    except Exception as error:
        raise ModelError(f"{path}: TVM cannot import it: {one_line(error)}") from error


def _output_names(program: Any) -> list[str]:
    return [str(name) for name in program.graph_signature.user_outputs]
