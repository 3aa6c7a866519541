"""The stored keys near a wanted one, in one snapshot.

Every query goes by an index and reads a bounded number of rows, so that it costs the same however
much is stored. First come the workloads that may be related (relations.py), `_CANDIDATES` of each
kind: of the same structure or heaviest block and of the same op and buffers the newest, of another
shape the next smaller and the next larger by the number of elements in all buffers. Then comes on
which targets they have something: on the wanted target and its equivalents all of them; on others
(near_targets.py) only the nearest `_ELSEWHERE` workloads, and only where nothing nearer is found.

Another compiler is looked at where the same op and buffers are stored by it, and for other shapes
the versions next to the wanted one, by their text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Float,
    Integer,
    Select,
    String,
    Subquery,
    bindparam,
    exists,
    func,
    select,
    true,
    union_all,
)
from sqlalchemy.orm import Session, aliased

from tunebook.cache.buffers import dtypes_text, log_elements, shapes_text
from tunebook.cache.distances import program_distance, target_distance
from tunebook.cache.keys import ScheduleKey, WorkloadKey
from tunebook.cache.likeness import Likeness, LookupHints
from tunebook.cache.misses import MissReason
from tunebook.cache.near_targets import NearTarget, NearTargets
from tunebook.cache.relations import (
    LAYOUT_OPS,
    Program,
    bare_op,
    nearness,
    parsed_buffers,
    reason_of,
    relation_of_programs,
)
from tunebook.cache.tables import RecordRow, ScheduleRow, TargetRow, WorkloadRow

_CANDIDATES = 32
_ELSEWHERE = 32
_NO_NEARER_ELSEWHERE = nearness(None, MissReason.OTHER_TARGET)


class Holding(Enum):
    """What a key must have to be near: a schedule that is served, one that is served where an
    emulated board's is accepted too, or just a successful record."""

    SERVED = "served"
    SERVED_OR_EMULATED = "served or emulated"
    SUCCESSFUL = "successful"


@dataclass(frozen=True)
class NearKey:
    """A stored key, how it is related to the wanted one, and its rows."""

    reason: MissReason
    key: ScheduleKey
    likeness: Likeness
    workload_id: int
    target_id: int


@dataclass(frozen=True)
class _Candidate:
    """A stored program; `relation` is None for the wanted one itself."""

    id: int
    program: Program
    relation: MissReason | None
    distance: tuple[Any, ...]


class NearWorkloads:
    """Finds near keys for the misses of one look-up."""

    def __init__(self, session: Session, hints: LookupHints, holding: Holding) -> None:
        self._session = session
        self._targets = NearTargets(session, hints)
        self._pairs = _PAIRS[holding]

    def nearest(self, target: str, wanted: Program, count: int) -> list[NearKey]:
        """At most `count` keys other than the wanted one, nearest first."""
        candidates = self._candidates(wanted)
        here, elsewhere = self._targets.of(target)
        found = self._held(target, candidates, here)
        nearer = sum(order[0] < _NO_NEARER_ELSEWHERE for order, _ in found)
        if nearer < count:
            found += self._held(target, candidates[:_ELSEWHERE], elsewhere)
        found.sort(key=lambda one: one[0])
        return [near for _, near in found[:count]]

    def _held(
        self, target: str, candidates: list[_Candidate], targets: list[NearTarget]
    ) -> list[tuple[tuple[Any, ...], NearKey]]:
        """The keys among these that hold something, each with how near it is."""
        if not candidates or not targets:
            return []
        programs = {candidate.id: candidate for candidate in candidates}
        places = {near.id: near for near in targets}
        rows = self._session.execute(
            self._pairs, {"workloads": list(programs), "targets": list(places)}
        )
        return [
            _near_key(target, programs[workload_id], places[target_id])
            for workload_id, target_id in rows
            if programs[workload_id].relation or places[target_id].relation
        ]

    def _candidates(self, wanted: Program) -> list[_Candidate]:
        """The related programs that are stored, nearest first."""
        rows = {row.id: row for row in self._session.execute(_WORKLOADS, _parameters(wanted)).all()}
        found = []
        for row in rows.values():
            program = program_of(row)
            same = program.key == wanted.key
            relation = None if same else relation_of_programs(wanted, program)
            if same or relation is not None:
                distance = (
                    nearness(relation, None) if relation else -1,
                    *program_distance(wanted, program),
                )
                found.append(_Candidate(row.id, program, relation, distance))
        return sorted(found, key=lambda candidate: candidate.distance)


def program_of(row: Any) -> Program:
    """The program from anything with the workload's columns."""
    return Program(
        WorkloadKey(row.op, row.buffers, row.compiler, row.hash),
        Likeness(row.structure, row.anchor, row.attributes, row.constants),
    )


def _near_key(
    wanted: str, candidate: _Candidate, target: NearTarget
) -> tuple[tuple[Any, ...], NearKey]:
    order = (
        nearness(candidate.relation, target.relation),
        target_distance(wanted, target.text),
        candidate.distance,
    )
    return order, NearKey(
        reason=reason_of(candidate.relation, target.relation),
        key=candidate.program.key.on(target.text),
        likeness=candidate.program.likeness,
        workload_id=candidate.id,
        target_id=target.id,
    )


def _parameters(wanted: Program) -> dict[str, Any]:
    """What is unknown is NULL, which equals nothing."""
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
    *(_W.id, _W.op, _W.buffers, _W.compiler, _W.hash),
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


def _workloads() -> Any:
    """Every stored workload that may be related to a wanted one, and some that are not."""
    newest = (_W.id.desc(),)
    own_compiler = _W.compiler == _text("compiler")
    same_shapes = (_W.op == _text("op"), _W.shapes == _text("shapes"))
    same_buffers = _W.buffers == _text("buffers")
    parts = [
        _some(
            *(_W.hash == _text("hash"), own_compiler, _W.op == _text("op"), same_buffers),
            order=newest,
        ),
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
            order=newest,
        ),
        *_by_size(_text("compiler"), _CANDIDATES),
        *_by_size(_next_compiler(is_older=True), _CANDIDATES // 4),
        *_by_size(_next_compiler(is_older=False), _CANDIDATES // 4),
    ]
    return union_all(*(select(*part.c) for part in parts))


def _pairs(holds: Any) -> Select[tuple[int, int]]:
    """Of these workloads and targets the pairs that hold something."""
    return (
        select(_W.id, TargetRow.id)
        .select_from(_W)
        .join(TargetRow, true())
        .where(
            _W.id.in_(bindparam("workloads", expanding=True, type_=Integer)),
            TargetRow.id.in_(bindparam("targets", expanding=True, type_=Integer)),
            holds,
        )
    )


_SERVED = exists().where(ScheduleRow.workload_id == _W.id, ScheduleRow.target_id == TargetRow.id)
_SUCCESSFUL = exists().where(
    RecordRow.workload_id == _W.id,
    RecordRow.target_id == TargetRow.id,
    RecordRow.seconds.is_not(None),
)
# Made once: putting them together takes longer than running them.
_WORKLOADS = _workloads()
_PAIRS = {
    Holding.SERVED: _pairs(_SERVED.where(ScheduleRow.emulated.is_(False))),
    Holding.SERVED_OR_EMULATED: _pairs(_SERVED),
    Holding.SUCCESSFUL: _pairs(_SUCCESSFUL),
}
