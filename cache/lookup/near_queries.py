"""The statements that find what may be near a wanted key, each by an index and with a limit.

Of each kind of relation (relations.py) `_CANDIDATES` programs are looked at: of the same structure,
of the same heaviest block, and of the same op and buffers the newest; of the same op and dtypes the
next smaller and the next larger by the number of elements in all buffers. Another compiler is
looked at where the same op and buffers are stored by it, and for other shapes the versions next to
the wanted one, by their text.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Float,
    Integer,
    String,
    Subquery,
    bindparam,
    func,
    literal,
    select,
    true,
    union_all,
)
from sqlalchemy.orm import aliased

from tunebook.cache.buffers import dtypes_text, log_elements, shapes_text
from tunebook.cache.likeness import Likeness
from tunebook.cache.lookup.relations import LAYOUT_OPS, Program, bare_op, parsed_buffers
from tunebook.cache.storage.identities import KEY_COLUMNS, workload_key_of
from tunebook.cache.storage.tables import RecordRow, ScheduleRow, TargetRow, WorkloadRow

_CANDIDATES = 32
# Of each of the compilers next to the wanted one.
_OF_OTHER_COMPILERS = 8


class Holding(Enum):
    """What a key must have to be near: a schedule that is served, one that is served where an
    emulated board's is accepted too, or just a successful record."""

    SERVED = "served"
    SERVED_OR_EMULATED = "served or emulated"
    SUCCESSFUL = "successful"


def program_of(row: Any) -> Program:
    """The program from anything with the workload's columns."""
    return Program(
        workload_key_of(row),
        Likeness(row.structure, row.anchor, row.attributes, row.constants),
    )


def parameters(wanted: Program) -> dict[str, Any]:
    """What PROGRAMS asks for; what is unknown is NULL, which equals nothing."""
    key, likeness = wanted.key, wanted.likeness
    buffers = parsed_buffers(key.buffers)
    return {
        "hash": key.hash,
        "compiler": key.compiler,
        "op": key.op,
        "ops": _ops_laid_out_otherwise(key.op),
        "buffers": key.buffers,
        "shapes": shapes_text(buffers) if buffers else None,
        "dtypes": dtypes_text(buffers) if buffers else None,
        "elements": log_elements(buffers) if buffers else None,
        "structure": likeness.structure or None,
        "anchor": likeness.anchor or None,
    }


def _ops_laid_out_otherwise(op: str) -> list[str]:
    """The op and the likely ones that differ from it in layout transforms only."""
    bare = bare_op(op) or op
    before = [f"{layout}+{bare}" for layout in LAYOUT_OPS]
    after = [f"{text}+{layout}" for layout in LAYOUT_OPS for text in (bare, f"{layout}+{bare}")]
    return [op, bare, *before, *after]


_W = WorkloadRow
PROGRAM_COLUMNS = (
    *(_W.id, *KEY_COLUMNS),
    *(_W.structure, _W.anchor, _W.attributes, _W.constants),
)


def _text(name: str) -> Any:
    return bindparam(name, type_=String)


def _some(*conditions: ColumnElement[bool], order: Any, count: int = _CANDIDATES) -> Subquery:
    return select(*PROGRAM_COLUMNS).where(*conditions).order_by(*order).limit(count).subquery()


def _by_size(compiler: Any, count: int) -> list[Subquery]:
    """The next smaller and the next larger of the same op and dtypes."""
    same = (_W.op == _text("op"), _W.dtypes == _text("dtypes"), _W.compiler == compiler)
    size = bindparam("elements", type_=Float)
    return [
        _some(*same, _W.elements <= size, order=(_W.elements.desc(),), count=count),
        _some(*same, _W.elements > size, order=(_W.elements,), count=count),
    ]


def _next_compiler(is_older: bool) -> Any:
    """The compiler next to the wanted one by its text, among those of the same op and dtypes."""
    other = aliased(_W)
    compilers = select((func.max if is_older else func.min)(other.compiler))
    wanted = _text("compiler")
    beyond = other.compiler < wanted if is_older else other.compiler > wanted
    return compilers.where(
        other.op == _text("op"), other.dtypes == _text("dtypes"), beyond
    ).scalar_subquery()


def _programs() -> Any:
    """Every stored workload that may be related to a wanted one, and some that are not."""
    newest = (_W.id.desc(),)
    own_compiler = _W.compiler == _text("compiler")
    same_shapes = (_W.op == _text("op"), _W.shapes == _text("shapes"))
    same_buffers = _W.buffers == _text("buffers")
    parts = [
        _some(_W.hash == _text("hash"), own_compiler, order=newest),
        _some(_W.structure == _text("structure"), own_compiler, order=newest),
        _some(*same_shapes, own_compiler, same_buffers, order=newest),
        _some(*same_shapes, own_compiler, ~same_buffers, order=newest),
        *(
            _some(*same_shapes, beyond, same_buffers, order=(order, *newest))
            for beyond, order in (
                (_W.compiler < _text("compiler"), _W.compiler.desc()),
                (_W.compiler > _text("compiler"), _W.compiler),
            )
        ),
        _some(_W.anchor == _text("anchor"), own_compiler, order=newest),
        _some(
            _W.op.in_(bindparam("ops", expanding=True, type_=String)),
            _W.dtypes == _text("dtypes"),
            own_compiler,
            _W.elements == bindparam("elements", type_=Float),
            order=(_W.op, *newest),
        ),
        *_by_size(_text("compiler"), _CANDIDATES),
        *_by_size(_next_compiler(is_older=True), _OF_OTHER_COMPILERS),
        *_by_size(_next_compiler(is_older=False), _OF_OTHER_COMPILERS),
    ]
    return union_all(*(select(*part.c) for part in parts))


def _pairs(*holding: ColumnElement[bool], of: type[RecordRow] | type[ScheduleRow]) -> Any:
    """Each of these workloads on each of these targets, and whether it holds something."""
    held = (
        select(literal(True))
        .where(of.workload_id == _W.id, of.target_id == TargetRow.id, *holding)
        .limit(1)
        .correlate(_W, TargetRow)
        # As a condition PostgreSQL would make a join of it, and read the whole table.
        .scalar_subquery()
    )
    return (
        select(_W.id, TargetRow.id, held)
        .select_from(_W)
        .join(TargetRow, true())
        .where(
            _W.id.in_(bindparam("workloads", expanding=True, type_=Integer)),
            TargetRow.id.in_(bindparam("targets", expanding=True, type_=Integer)),
        )
    )


# Made once: putting them together takes longer than running them.
PROGRAMS = _programs()
PAIRS = {
    Holding.SERVED: _pairs(ScheduleRow.emulated.is_(False), of=ScheduleRow),
    Holding.SERVED_OR_EMULATED: _pairs(of=ScheduleRow),
    Holding.SUCCESSFUL: _pairs(RecordRow.seconds.is_not(None), of=RecordRow),
}
