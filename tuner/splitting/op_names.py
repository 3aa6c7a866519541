"""The names and attributes of fused operators, free of the numbers that TVM gives them.

TVM numbers the functions of a module (`relu`, `relu1`, ... `relu6`), so that the seventh relu is
spelt like the operator relu6, and two operators that do the same become one function, which is
named after whichever came first. So the name that a function was asked for is noted where it is
made, while LegalizeOps turns operators into functions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import tvm
from tvm import relax, topi

from tunebook.tuner.splitting.legalized_calls import LegalizedCalls
from tunebook.tuner.splitting.op_attributes import attributes_of
from tunebook.tuner.tvm_compat import added_functions

_SEPARATOR = "+"
# How TVM marks functions that it wrote in TIR or TE; it says nothing about the operator.
_PREFIXES = ("tir_", "te_")


@dataclass(frozen=True, order=True)
class Operators:
    """The operators of a function in order: their names joined (`conv2d+add+relu`), and their
    attributes as canonical JSON (`{"conv2d.strides": [2, 2]}`)."""

    names: str
    attributes: str


class OpNameRecorder:
    """Notes which operator each function was made for, while LegalizeOps runs."""

    def __init__(self) -> None:
        self._made: dict[str, set[tuple[str, str]]] = {}
        self._calls = LegalizedCalls()

    def legalizers(self) -> dict[str, Any]:
        """TVM's own legalization of every operator, each noting what it makes."""
        return {name: self._noting(name, legalize) for name, legalize in _legalizations()}

    def operator_of(self, function: str) -> tuple[str, str]:
        """The operator behind a function of the legalized module and its attributes as JSON text.

        Of several that made the same function it is the first by name, whichever came first.
        """
        made = self._made.get(function)
        return min(made) if made else (known_operator(function), "{}")

    def _noting(self, operator: str, legalize: Any) -> Any:
        def legalize_and_note(builder: Any, call: Any) -> Any:
            attributes = json.dumps(attributes_of(call), sort_keys=True)
            arguments = list(call.args)
            before = self._calls.find(operator, attributes, arguments)
            if before is not None:
                return before

            def note(function: str, asked_for: str) -> None:
                made = _without_prefix(asked_for), attributes
                self._made.setdefault(function, set()).add(made)

            with added_functions(note):
                result = legalize(builder, call)
            self._calls.keep(operator, attributes, arguments, result)
            return result

        return legalize_and_note


def known_operator(function: str) -> str:
    """The operator in the name of a function that the front end wrote: the digits at its end stay
    only where a known operator is spelt with them."""
    candidates = list(_without_numbers(function))
    known = [one for one in candidates if one in known_names()]
    return _without_prefix((known or candidates[-1:])[0])


def fused_operators(module: Any, recorder: OpNameRecorder) -> dict[str, Operators]:
    """The operators of each function after FuseOps and before FuseTIR, by the function's name."""
    found = {}
    for variable, function in module.functions.items():
        name = variable.name_hint
        if isinstance(function, tvm.tirx.PrimFunc):
            found[name] = _joined([recorder.operator_of(name)])
        elif function.attrs and "Primitive" in function.attrs:
            found[name] = _joined(list(map(recorder.operator_of, _called_in_order(function))))
    return found


def _joined(operators: list[tuple[str, str]]) -> Operators:
    names = [name for name, _ in operators]
    attributes = {}
    for position, (name, text) in enumerate(operators):
        number = names[: position + 1].count(name)
        prefix = name if number == 1 else f"{name}#{number}"
        attributes.update({f"{prefix}.{field}": value for field, value in json.loads(text).items()})
    return Operators(_SEPARATOR.join(names), json.dumps(attributes, sort_keys=True))


def _legalizations() -> Iterator[tuple[str, Any]]:
    for name in tvm.ir.Op.list_op_names():
        if name.startswith("relax."):
            # has_attr says yes for operators that have none.
            legalize = tvm.ir.Op.get(name).get_attr("FLegalize")
            if legalize is not None:
                yield name, legalize


def _called_in_order(function: Any) -> list[str]:
    return [
        binding.value.args[0].name_hint
        for block in function.body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Call)
        and binding.value.args
        and isinstance(binding.value.args[0], tvm.ir.GlobalVar)
    ]


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
def known_names() -> frozenset[str]:
    relax_names = (name.rpartition(".")[2] for name in tvm.ir.Op.list_op_names())
    topi_names = (name for name in _names_in(topi) if callable(getattr(topi, name)))
    topi_nn_names = (name for name in _names_in(topi.nn) if callable(getattr(topi.nn, name)))
    return frozenset((*relax_names, *topi_names, *topi_nn_names))


def _names_in(module: Any) -> list[str]:
    return [name for name in dir(module) if not name.startswith("_")]
