"""The attributes of a Relax operator as plain values: what tells it from others of its name."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import relax, tirx

from tunebook.tuner.splitting.tir_walk import field_names

Plain = int | float | str | list["Plain"] | None
# The result's dtype where the operator does not choose one.
_UNSAID = (None, "", "void")


def attributes_of(call: Any) -> dict[str, Plain]:
    """The attributes of a call by name, defaults included, and what of its arguments is a tuple of
    numbers (`args[1]`): where a slice begins is no attribute for TVM."""
    found: dict[str, Plain] = {}
    if call.attrs is not None:
        for name in field_names(call.attrs.__class__):
            value = _plain(getattr(call.attrs, name))
            if name != "out_dtype" or value not in _UNSAID:
                found[name] = value
    for position, argument in enumerate(call.args):
        if isinstance(argument, relax.Tuple) and argument.fields and _all_numbers(argument.fields):
            found[f"args[{position}]"] = _plain(argument.fields)
    return found


def _all_numbers(values: Any) -> bool:
    return all(isinstance(value, tirx.IntImm | tirx.FloatImm) for value in values)


def _plain(value: Any) -> Plain:
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    if isinstance(value, tirx.IntImm | tirx.FloatImm):
        return _plain(value.value)
    if isinstance(value, tvm_ffi.Array | list | tuple):
        return [_plain(one) for one in value]
    return str(value)
