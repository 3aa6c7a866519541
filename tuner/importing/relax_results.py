"""What an imported Relax program gives back: names, dtypes and fixed shapes of its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax, tirx

from tunebook.cache.errors import ModelError
from tunebook.tuner.importing.imported_model import TensorSpec


def result_tensors(module: Any, names: Sequence[str]) -> tuple[TensorSpec, ...]:
    """The results of `main`, named in order. Raises ModelError for one without a fixed shape."""
    result = module["main"].ret_ty
    types = list(result.fields) if isinstance(result, relax.TupleType) else [result]
    if len(types) != len(names):
        raise ModelError(f"the import gives {len(types)} results, but the model {len(names)}")
    return tuple(_tensor(name, one) for name, one in zip(names, types, strict=True))


def _tensor(name: str, one: Any) -> TensorSpec:
    shape = getattr(one, "shape", None)
    sizes = getattr(shape, "values", None)
    if sizes is None or not all(isinstance(size, tirx.IntImm) for size in sizes):
        raise ModelError(
            f"the shape of output {name!r} depends on the data, which Tunebook cannot tune; "
            f"cut the model before that operator"
        )
    return TensorSpec(name, str(one.dtype), tuple(int(size) for size in sizes))
