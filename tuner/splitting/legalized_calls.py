"""Calls that TVM has legalized already, so that it need not write the same function again.

A model of 60 tasks has ten times as many calls, most of them alike, and each takes TVM a
millisecond or two: it writes the function anew, only to find that it has an equal one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax


@dataclass(frozen=True)
class _Legalized:
    """A call of a function, and which of the operator's arguments the function takes."""

    call: Any
    taken: tuple[int, ...]


class LegalizedCalls:
    """For operators of the same attributes and types of arguments: the call of their function."""

    def __init__(self) -> None:
        self._known: dict[Hashable, _Legalized] = {}
        self._call_tir = tvm.ir.Op.get("relax.call_tir")

    def find(self, operator: str, attributes: str, arguments: Sequence[Any]) -> Any | None:
        """The call as it would be legalized, or None where none like it was."""
        signature = _signature(operator, attributes, arguments)
        known = None if signature is None else self._known.get(signature)
        if known is None:
            return None
        taken = relax.Tuple([arguments[position] for position in known.taken])
        made = known.call
        return relax.Call(made.op, [made.args[0], taken], made.attrs, made.ty_args)

    def keep(self, operator: str, attributes: str, arguments: Sequence[Any], made: Any) -> None:
        """Keeps what a call was made, where that is one call of a function with arguments that
        the operator had."""
        signature = _signature(operator, attributes, arguments)
        taken = self._taken(made, arguments)
        if signature is not None and taken is not None:
            self._known[signature] = _Legalized(made, taken)

    def _taken(self, made: Any, arguments: Sequence[Any]) -> tuple[int, ...] | None:
        if not isinstance(made, relax.Call) or not made.op.same_as(self._call_tir):
            return None
        if len(made.args) != 2 or not isinstance(made.args[1], relax.Tuple):
            return None
        places = [_place(one, arguments) for one in made.args[1].fields]
        taken = tuple(place for place in places if place is not None)
        return taken if len(taken) == len(places) else None


def _signature(operator: str, attributes: str, arguments: Sequence[Any]) -> Hashable | None:
    """What the function of an operator follows from; None where that cannot be told."""
    parts: list[Hashable] = [operator, attributes]
    for position, argument in enumerate(arguments):
        if isinstance(argument, relax.ShapeExpr) or _is_scalar_constant(argument):
            # Its value becomes part of the function.
            parts.append(tvm_ffi.StructuralKey(argument))
        elif isinstance(argument.ty, relax.TensorType):
            # A tensor that comes twice could be taken for either.
            if _place(argument, arguments) != position:
                return None
            parts.append(tvm_ffi.StructuralKey(argument.ty))
        else:
            return None
    return tuple(parts)


def _place(one: Any, arguments: Sequence[Any]) -> int | None:
    return next((place for place, other in enumerate(arguments) if one.same_as(other)), None)


def _is_scalar_constant(argument: Any) -> bool:
    return (
        isinstance(argument, tvm.ir.Constant)
        and isinstance(argument.ty, relax.TensorType)
        and argument.ty.ndim == 0
    )
