"""Calls that TVM has legalized already, so that it need not write the same function again.

A model of 60 tasks has ten times as many calls, most of them alike, and each takes TVM a
millisecond or two: it writes the function anew, only to find that it has an equal one.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import tvm
import tvm_ffi
from tvm import relax


class LegalizedCalls:
    """For operators with the same attributes on the same types: the call of the function."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}
        self._call_tir = tvm.ir.Op.get("relax.call_tir")

    def find(self, operator: str, attributes: str, call: Any) -> Any | None:
        """The call as it would be legalized, or None where none like it was."""
        if not _is_of_tensors(call):
            return None
        made = self._made.get(_signature(operator, attributes, call))
        if made is None:
            return None
        arguments = [made.args[0], relax.Tuple(call.args)]
        return relax.Call(made.op, arguments, made.attrs, made.ty_args)

    def keep(self, operator: str, attributes: str, call: Any, made: Any) -> None:
        """Keeps what a call was made, where that is a function of its arguments as they are."""
        if _is_of_tensors(call) and self._takes_the_same(made, call):
            self._made[_signature(operator, attributes, call)] = made

    def _takes_the_same(self, made: Any, call: Any) -> bool:
        if not isinstance(made, relax.Call) or not made.op.same_as(self._call_tir):
            return False
        if len(made.args) != 2 or not isinstance(made.args[1], relax.Tuple):
            return False
        taken = made.args[1].fields
        return len(taken) == len(call.args) and all(
            one.same_as(other) for one, other in zip(taken, call.args, strict=True)
        )


def _signature(operator: str, attributes: str, call: Any) -> Hashable:
    return operator, attributes, tuple(tvm_ffi.StructuralKey(one.ty) for one in call.args)


def _is_of_tensors(call: Any) -> bool:
    """Whether nothing but types of tensors counts: a scalar constant becomes part of the
    function, and a shape is looked up."""
    return all(
        isinstance(one.ty, relax.TensorType)
        and not (isinstance(one, tvm.ir.Constant) and one.ty.ndim == 0)
        for one in call.args
    )
