"""The blocks of a program, and which of them a trace means by its names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import tvm_ffi

from tunebook.tuner.splitting.program import ENTRY

_STATEMENTS_BELOW = ("body", "block", "seq", "then_case", "else_case", "init")
_DIGITS = re.compile(r"\d+")


def blocks_in(statement: Any) -> Iterator[Any]:
    """All blocks below a statement, and it, in the order of the program."""
    pending = [statement]
    while pending:
        node = pending.pop()
        if hasattr(node, "name_hint") and hasattr(node, "alloc_buffers"):
            yield node
        below: list[Any] = []
        for name in _STATEMENTS_BELOW:
            value = getattr(node, name, None)
            if isinstance(value, tvm_ffi.Array):
                below.extend(value)
            elif value is not None:
                below.append(value)
        pending.extend(reversed(below))


def with_names_of(module: Any, instructions: Sequence[list[Any]]) -> Sequence[list[Any]]:
    """A trace's instructions, asking for blocks by the names that they have in this module.

    A block is named after the variable it was made for (`lv294_red`), whose number counts through
    the whole model; the structural hash leaves names out. So the same program, out of another
    model, has other names than the trace. A name that is not there becomes that of the next block
    which differs in digits only, or ends alike (`x_red`), or, where as many are left on both
    sides, of the next block. What postprocessors ask for has such a name with something behind it
    (`lv294_red_update`).
    """
    present = list(dict.fromkeys(one.name_hint for one in blocks_in(module[ENTRY].body)))
    renamed = _renamed(_asked_first(instructions), present)
    if not renamed:
        return instructions
    return [
        [kind, inputs, [_new_name(attributes[0], renamed), *attributes[1:]], outputs]
        if kind == "GetSBlock"
        else [kind, inputs, attributes, outputs]
        for kind, inputs, attributes, outputs in instructions
    ]


def _asked_first(instructions: Sequence[list[Any]]) -> list[str]:
    """The names that a trace asks for before its postprocessors, which make blocks of their own."""
    names: dict[str, None] = {}
    for kind, _, attributes, _ in instructions:
        if kind == "EnterPostproc":
            break
        if kind == "GetSBlock":
            names[attributes[0]] = None
    return list(names)


def _renamed(asked: Sequence[str], present: Sequence[str]) -> dict[str, str]:
    missing = [name for name in asked if name not in present]
    free = [name for name in present if name not in asked]
    renamed = {}
    for form in (_without_digits, _ending):
        for name in list(missing):
            other = next((one for one in free if form(one) == form(name)), None)
            if other is not None:
                renamed[name] = other
                missing.remove(name)
                free.remove(other)
    if len(missing) == len(free):
        renamed.update(zip(missing, free, strict=True))
    return renamed


def _without_digits(name: str) -> str:
    return _DIGITS.sub("", name)


def _ending(name: str) -> str:
    return name.rpartition("_")[2]


def _new_name(name: str, renamed: dict[str, str]) -> str:
    for old in sorted(renamed, key=len, reverse=True):
        if name == old or name.startswith(f"{old}_"):
            return renamed[old] + name[len(old) :]
    return name
