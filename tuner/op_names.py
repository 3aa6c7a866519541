"""The names of fused operators, free of the numbers that TVM gives them in one module.

TVM numbers the functions of a module (`relu`, `relu1`, ... `relu6`), so that the seventh relu is
spelt like the operator relu6. Which is meant cannot be read off the name; it is noted where each
function is made, while LegalizeOps turns operators into functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import tvm
from tvm import relax, topi

_SEPARATOR = "+"
# How TVM marks functions that it wrote in TIR or TE; it says nothing about the operator.
_PREFIXES = ("tir_", "te_")


class OpNameRecorder:
    """Notes which operator each function was made for, while LegalizeOps runs."""

    def __init__(self) -> None:
        self._operators: dict[str, str] = {}  # function -> the operator it was first made for

    def legalizers(self) -> dict[str, Any]:
        """TVM's own legalization of every operator, each noting what it makes."""
        return {name: self._noting(name, legalize) for name, legalize in _legalizations()}

    def name_of(self, function: str) -> str:
        """The operator behind a function of the legalized module, without its number."""
        return operator_name(function, self._operators.get(function))

    def _noting(self, operator: str, legalize: Any) -> Any:
        def legalize_and_note(builder: Any, call: Any) -> Any:
            result = legalize(builder, call)
            for function in _called_functions(result):
                self._operators.setdefault(function, operator)
            return result

        return legalize_and_note


def operator_name(function: str, operator: str | None = None) -> str:
    """The operator's name in the name of a function made for it.

    `operator` is Relax's name (`relax.nn.relu`) where it is known; without it the digits at the end
    stay only where a known operator is spelt with them.
    """
    candidates = list(_without_numbers(function))
    short = operator.rpartition(".")[2] if operator else None
    if short in candidates:
        return str(short)
    if operator is None:
        candidates = [one for one in candidates if one in _known_names()] or candidates[-1:]
        return _without_prefix(candidates[0])
    return _without_prefix(candidates[-1])


def fused_names(module: Any, recorder: OpNameRecorder) -> dict[str, str]:
    """The op text (`conv2d+add+relu`) of each function after FuseOps and before FuseTIR."""
    names = {}
    for variable, function in module.functions.items():
        if isinstance(function, tvm.tirx.PrimFunc):
            names[variable.name_hint] = recorder.name_of(variable.name_hint)
        elif function.attrs and "Primitive" in function.attrs:
            called = [recorder.name_of(one) for one in _called_in_order(function)]
            names[variable.name_hint] = _SEPARATOR.join(called)
    return names


def _legalizations() -> Iterator[tuple[str, Any]]:
    for name in tvm.ir.Op.list_op_names():
        if name.startswith("relax."):
            # has_attr says yes for operators that have none.
            legalize = tvm.ir.Op.get(name).get_attr("FLegalize")
            if legalize is not None:
                yield name, legalize


def _called_functions(expression: Any) -> list[str]:
    called: list[str] = []

    def visit(node: Any) -> None:
        if isinstance(node, relax.Call) and node.args:
            callee = node.args[0]
            if isinstance(callee, tvm.ir.GlobalVar):
                called.append(callee.name_hint)

    relax.analysis.post_order_visit(expression, visit)
    return called


def _called_in_order(function: Any) -> list[str]:
    called = []
    for block in function.body.blocks:
        for binding in block.bindings:
            called.extend(_called_functions(binding.value))
    return called


def _without_numbers(function: str) -> Iterator[str]:
    """The name as it is, then with one, two, ... digits fewer at its end."""
    yield function
    while function and function[-1].isdigit():
        function = function[:-1]
        yield function


def _without_prefix(name: str) -> str:
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


@cache
def _known_names() -> frozenset[str]:
    relax_names = (name.rpartition(".")[2] for name in tvm.ir.Op.list_op_names())
    topi_names = (name for name in _names_in(topi) if callable(getattr(topi, name)))
    topi_nn_names = (name for name in _names_in(topi.nn) if callable(getattr(topi.nn, name)))
    return frozenset((*relax_names, *topi_names, *topi_nn_names))


def _names_in(module: Any) -> list[str]:
    return [name for name in dir(module) if not name.startswith("_")]
