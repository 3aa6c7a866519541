"""How long a schedule makes a kernel's straight-line code, before anything is compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tunebook.tuner.splitting.tir_walk import kind

_UNROLLED_UP_TO = "pragma_auto_unroll_max_step"


@dataclass(frozen=True)
class _Code:
    """Stores of a statement that is unrolled, the elements that they write, and whether nothing in
    it is left to loop."""

    stores: int
    elements: int
    straight: bool


def code_length(function: Any) -> int:
    """The elements that are written in a row, without a loop around them, by all of a scheduled
    function's code: vectorised and unrolled loops count as often as they go round.

    TVM's UnrollLoop unrolls what it is allowed to by the number of stores; this follows its rules
    for loops of constant extents.
    """
    return _code(function.body, 0).elements


def _code(statement: Any, most_stores: int) -> _Code:
    name = kind(statement)
    if name == "For":
        return _loop(statement, most_stores)
    if name == "SeqStmt":
        return _all(statement.seq, most_stores)
    if name == "SBlockRealize":
        statement = statement.block
    parts = [getattr(statement, part, None) for part in ("init", "body", "then_case", "else_case")]
    present = [part for part in parts if part is not None]
    return _all(present, most_stores) if present else _Code(1, 1, True)


def _all(statements: Any, most_stores: int) -> _Code:
    codes = [_code(one, most_stores) for one in statements]
    return _Code(
        sum(one.stores for one in codes),
        sum(one.elements for one in codes),
        all(one.straight for one in codes),
    )


def _loop(loop: Any, most_stores: int) -> _Code:
    most_stores = int(loop.annotations.get(_UNROLLED_UP_TO, most_stores))
    body = _code(loop.body, most_stores)
    if not isinstance(loop.extent, tirx.IntImm):
        return _Code(body.stores, body.elements, False)
    times = int(loop.extent)
    if loop.kind == tirx.ForKind.VECTORIZED:
        return _Code(body.stores, times * body.elements, body.straight)
    unrolled = loop.kind == tirx.ForKind.UNROLLED or (
        loop.kind == tirx.ForKind.SERIAL and body.straight and times * body.stores <= most_stores
    )
    if unrolled:
        return _Code(times * body.stores, times * body.elements, body.straight)
    return _Code(body.stores, body.elements, False)
