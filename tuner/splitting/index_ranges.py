"""Which values of an integer parameter read within bounds, where a program uses it as an index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import sym, tirx

from tunebook.tuner.splitting.tir_walk import (
    buffer_identity,
    children,
    is_if_then_else,
    kind,
    loads_in,
    post_order,
)

Range = tuple[int, int]  # half-open
Ranges = dict[int, Range]  # by position of the parameter


def index_ranges(function: Any) -> Ranges:
    """The range of each integer parameter that is an index into a buffer, by its position.

    Follows casts, clamps, selects and sums, and what is written to intermediate buffers. A value
    within the range never reads out of bounds; the range may be narrower than what is allowed.
    """
    return _IndexUses(function).ranges()


class _IndexUses:
    def __init__(self, function: Any) -> None:
        self._nodes = list(post_order(function.body))
        self._parameters = {buffer_identity(p): i for i, p in enumerate(function.params)}
        self._written: dict[int, list[Any]] = {}
        self._bounds = sym.Analyzer()
        for node in self._nodes:
            if isinstance(node, tirx.BufferStore):
                self._written.setdefault(buffer_identity(node.buffer), []).append(node.value)
            elif isinstance(node, tirx.For):
                domain = tvm.ir.Range.from_min_extent(node.min, node.extent)
                self._bounds.bind(node.loop_var, domain)
            elif isinstance(node, tirx.IterVar) and node.dom is not None:
                self._bounds.bind(node.var, node.dom)

    def ranges(self) -> Ranges:
        found: Ranges = {}
        for node in self._nodes:
            if isinstance(node, tirx.BufferStore):
                buffer = node.buffer
            elif kind(node) == "TensorLoad":
                buffer = node.source
            else:
                continue
            for index, extent in zip(node.indices, buffer.shape, strict=True):
                if isinstance(extent, tirx.IntImm) and loads_in(index):
                    found = _intersect(found, self._of(index, (0, int(extent)), frozenset()))
        return found

    def _of(self, value: Any, within: Range, seen: frozenset[int]) -> Ranges:
        """What the parameters behind `value` must keep to for it to lie within a range."""
        name = kind(value)
        if name == "TensorLoad":
            return self._of_load(value, within, seen)
        if name in ("Add", "Sub", "Mul", "FloorDiv"):
            return self._of_arithmetic(value, within, seen)
        if name == "FloorMod":
            return {}  # the remainder keeps within bounds whatever is divided
        found: Ranges = {}
        for child in _values_of(value):
            if loads_in(child):
                found = _intersect(found, self._of(child, within, seen))
        return found

    def _of_load(self, load: Any, within: Range, seen: frozenset[int]) -> Ranges:
        identity = buffer_identity(load.source)
        if identity in self._parameters and identity not in self._written:
            if "int" in str(load.source.dtype):
                return {self._parameters[identity]: within}
            return {}
        found: Ranges = {}
        if identity not in seen:
            for written in self._written.get(identity, []):
                if loads_in(written):
                    found = _intersect(found, self._of(written, within, seen | {identity}))
        return found

    def _of_arithmetic(self, value: Any, within: Range, seen: frozenset[int]) -> Ranges:
        left, right = value.a, value.b
        if loads_in(left) and loads_in(right):
            # Zero on both sides is in bounds wherever a sum or product of indices is.
            narrow = (0, 1)
            return _intersect(self._of(left, narrow, seen), self._of(right, narrow, seen))
        data, other = (left, right) if loads_in(left) else (right, left)
        least, most = self._bounds_of(other)
        return self._of(data, _solve(kind(value), within, least, most, data is left), seen)

    def _bounds_of(self, expression: Any) -> Range:
        bound = self._bounds.const_int_bound(expression)
        return int(bound.min_value), int(bound.max_value)


def _solve(operation: str, within: Range, least: int, most: int, data_is_left: bool) -> Range:
    """The range of `data` for which `data op other` lies within, other between least and most."""
    low, high = within
    if operation == "Add":
        return low - least, high - most
    if operation == "Sub":
        if data_is_left:
            return low + most, high + least
        return most - high + 1, least - low + 1
    if operation == "Mul" and least >= 0:
        factor = max(most, 1)
        return -(-low // factor), (high - 1) // factor + 1
    if operation == "FloorDiv" and data_is_left and least == most > 0:
        return low * most, high * most
    return 0, 1


def _values_of(value: Any) -> list[Any]:
    """The operands whose value can become that of the expression."""
    if isinstance(value, tirx.Select):
        return [value.true_value, value.false_value]
    if isinstance(value, tvm.ir.Call):
        # A condition is compared, not used as the index.
        return list(value.args)[1:] if is_if_then_else(value) else list(value.args)
    return list(children(value))


def _intersect(one: Mapping[int, Range], other: Mapping[int, Range]) -> Ranges:
    """Both at once; of two that exclude each other (the branches for i < 0 and i >= 0), the one
    that starts higher."""
    found = dict(one)
    for position, (low, high) in other.items():
        if position in found:
            low = max(low, found[position][0])
            high = min(high, found[position][1])
            if low >= high:
                found[position] = max(found[position], other[position])
                continue
        found[position] = (low, high)
    return found
