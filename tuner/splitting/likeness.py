"""What a program is like beyond its key, so that a miss can tell which stored one is near."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import tvm
from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir.analysis import find_anchor_sblock
from tvm_ffi import structural_mutate, structural_walk

from tunebook.cache.likeness import Likeness
from tunebook.tuner.hashing import structural_hash_text
from tunebook.tuner.splitting.program import ENTRY
from tunebook.tuner.splitting.tir_walk import is_if_then_else

# A look-up table that was folded into a program has thousands.
_MOST_CONSTANTS = 64
_PRECISIONS = {"float16": np.float16, "float32": np.float32}


def likeness_of(module: Any, attributes: str) -> Likeness:
    """The likeness of a normalised module whose operators have these attributes (JSON text)."""
    constants = _Constants()
    masked = module[ENTRY].with_body(constants.masked(module[ENTRY].body))
    return Likeness(
        structure=structural_hash_text(masked),
        anchor=_anchor(tvm.IRModule({ENTRY: masked})),
        attributes=attributes,
        constants=json.dumps(constants.found[:_MOST_CONSTANTS]),
    )


class _Constants:
    """Makes every scalar constant of a program zero, and notes what it was.

    A constant is a number in a value that is stored, and not one in an index: the step of a
    strided load, an extent, a bound of padding and what is counted from loops belong to the
    program's shape and attributes.
    Zero points of quantisation are integers in values, so they are constants.
    """

    def __init__(self) -> None:
        self.found: list[int | float | str] = []
        self._numbers: tuple[type, ...] = ()  # which are constants where the walk is

    def masked(self, body: Any) -> Any:
        # One call for all: each looks at the signatures of its callbacks, which takes longer than
        # the walk.
        return structural_mutate(
            body,
            [
                (tirx.BufferStore, self._store),
                # An index is no value, so the walk ends here.
                (TensorLoad, lambda load, _, __: load),
                (tirx.Cast, self._cast),
                (tirx.Select, self._select),
                (tvm.ir.Call, self._call),
                ((tirx.FloatImm, tirx.IntImm), self._number),
            ],
        )

    def _store(self, store: Any, mutator: Any, _: int) -> Any:
        value = self._within(mutator, (tirx.FloatImm, tirx.IntImm), store.value)
        return tirx.BufferStore(store.buffer, value, store.indices)

    def _cast(self, cast: Any, mutator: Any, _: int) -> Any:
        # An average at a border divides by a number that is counted from the loops.
        return mutator.default_mutate(cast) if _reads_a_buffer(cast) else cast

    def _select(self, select: Any, mutator: Any, _: int) -> Any:
        condition = self._condition(mutator, select.condition)
        branches = mutator.mutate(select.true_value), mutator.mutate(select.false_value)
        return tirx.Select(condition, *branches)

    def _call(self, call: Any, mutator: Any, _: int) -> Any:
        if not is_if_then_else(call):
            return mutator.default_mutate(call)
        condition, *branches = call.args
        condition = self._condition(mutator, condition)
        return tirx.if_then_else(condition, *map(mutator.mutate, branches))

    def _condition(self, mutator: Any, condition: Any) -> Any:
        # Its integers are bounds of loops, where it is about padding.
        return self._within(mutator, (tirx.FloatImm,) if self._numbers else (), condition)

    def _within(self, mutator: Any, numbers: tuple[type, ...], node: Any) -> Any:
        before, self._numbers = self._numbers, numbers
        try:
            return mutator.mutate(node)
        finally:
            self._numbers = before

    def _number(self, number: Any, _: Any, __: int) -> Any:
        if type(number) not in self._numbers:
            return number
        self.found.append(_plain(number))
        return type(number)(number.ty.dtype, 0)


def _reads_a_buffer(node: Any) -> bool:
    found: list[Any] = []
    structural_walk(node, (TensorLoad, found.append))
    return bool(found)


def _anchor(module: Any) -> str:
    """The hash of the heaviest block that reduces, empty without one.

    Its buffers are free variables in it, which are hashed by their types (dtype and shape) and in
    the order of their use; so what else is fused to the block says nothing.
    """
    try:
        block = find_anchor_sblock(module)
    except Exception:
        # TVM weighs several reductions by their loop nests, and a scan shares one with others.
        return ""
    return "" if block is None else structural_hash_text(block, map_free_vars=True)


def _plain(number: Any) -> int | float | str:
    """The number as JSON has it, as short as its dtype allows (1.01, where the nearest float32 is
    1.0099999904632568); an infinity, which JSON has not, by its name."""
    value: int | float = number.value
    if not math.isfinite(value):
        return str(value)
    precision = _PRECISIONS.get(str(number.ty.dtype))
    return value if precision is None else float(str(precision(value)))
