"""Walking a TIR function: TVM offers no visitor to Python, so its nodes' fields are followed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import tvm_ffi
from tvm import tirx

# Types are no part of the program, and the regions a block declares repeat what its body says.
_SKIPPED = {"span", "ty", "reads", "writes", "annotations"}


def children(node: Any) -> Iterator[Any]:
    """The statements and expressions directly below a node."""
    for name in _followed(node.__class__):
        value = getattr(node, name)
        for one in value if isinstance(value, tvm_ffi.Array) else (value,):
            if isinstance(one, tvm_ffi.Object) and not isinstance(one, tvm_ffi.Map):
                yield one


def post_order(node: Any) -> Iterator[Any]:
    """Every node below this one and then the node itself, in the order of execution."""
    for child in children(node):
        yield from post_order(child)
    yield node


def kind(node: Any) -> str:
    """The node's class by name: several of them have no public place in TVM's modules."""
    return type(node).__name__


def is_if_then_else(call: Any) -> bool:
    """Whether a call selects one of its last two arguments by its first."""
    return str(getattr(call.op, "name", "")).endswith("if_then_else")


def buffer_identity(variable: Any) -> int:
    """Tells buffers apart: they are variables, and comparing those builds an expression."""
    return hash(variable)


def loads_in(node: Any) -> list[Any]:
    """All reads of buffers below a node."""
    return [one for one in post_order(node) if kind(one) == "TensorLoad"]


def stores_in(node: Any) -> list[Any]:
    """All writes to buffers below a node."""
    return [one for one in post_order(node) if isinstance(one, tirx.BufferStore)]


@cache
def field_names(node_type: type) -> tuple[str, ...]:
    """The fields of a class of TVM's objects, inherited ones last."""
    info = getattr(node_type, "__tvm_ffi_type_info__", None)
    names: list[str] = []
    while info is not None:
        names += [field.name for field in info.fields]
        info = info.parent_type_info
    return tuple(names)


@cache
def _followed(node_type: type) -> tuple[str, ...]:
    return tuple(name for name in field_names(node_type) if name not in _SKIPPED)
