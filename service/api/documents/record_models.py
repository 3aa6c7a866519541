"""Records, schedules and targets as documents."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.lists.catalogue import (
    DetailedRecord,
    ListedRecord,
    ListedSchedule,
    ListedTarget,
)
from tunebook.cache.records import ErrorClass, Source
from tunebook.cache.untrusted.tile_sizes import TileSizes
from tunebook.service.api.documents.field_types import Moment


class KeyDocument(BaseModel):
    """A key, whole and in its parts."""

    key: str
    op: str
    buffers: str
    target: str
    compiler: str
    workload_hash: str


class RecordSummary(KeyDocument):
    """A measured trial as a list shows it; `seconds` is null for a failure."""

    id: int
    module_hash: str
    source: Source
    verified: bool
    suspect: bool = Field(
        description="Its board had drifted by then; its time is to be measured again."
    )
    emulated: bool
    seconds: float | None
    error: ErrorClass | None
    board: str
    board_class: str
    board_seconds: float = Field(description="What it cost the board, failure or not.")
    created_at: Moment


class TileSizesDocument(BaseModel):
    """How one loop was split: the block (empty for one that only a replay names), the number of
    its loop, and the factors from the outermost to the innermost."""

    block: str
    axis: int
    factors: list[int]


class RecordDocument(RecordSummary):
    """A measured trial with its schedule and where it came from."""

    trace: str = Field(description="MetaSchedule's trace as JSON text.")
    tile_sizes: list[TileSizesDocument] | None = Field(
        description="Null for a trace that is refused."
    )
    script: str | None = Field(description="The scheduled program as TVMScript.")
    script_error: str | None = Field(description="Why there is no script, where there is none.")
    run_seconds: list[float] = Field(description="The repeats, each the mean of many runs.")
    error_text: str
    board_state: dict[str, Any] = Field(description="What the board said of itself.")
    origin: str = Field(description="Which record it was made from, and how; empty for none.")
    served: bool = Field(description="Whether a look-up of its key is answered with it.")
    repeats: int = Field(description="Further measurements of the same module.")


class ScheduleDocument(KeyDocument):
    """What is served for a key."""

    record_id: int
    module_hash: str
    seconds: float
    emulated: bool
    source: Source
    created_at: Moment = Field(description="When its record was stored.")


class TargetDocument(BaseModel):
    """A target that something was stored for."""

    id: int
    target: str
    models: int = Field(description="How many model files were split for it.")
    schedules: int = Field(description="How many keys are served by real boards' schedules.")
    emulated_schedules: int = Field(description="How many by those of emulated boards.")


def record_summary(record: ListedRecord) -> RecordSummary:
    return RecordSummary(**_summary(record))


def record_document(
    record: DetailedRecord,
    tiles: tuple[TileSizes, ...] | None,
    script: str | None,
    script_error: str | None,
) -> RecordDocument:
    return RecordDocument(
        **_summary(record.listed),
        trace=record.trace,
        tile_sizes=None
        if tiles is None
        else [
            TileSizesDocument(block=one.block, axis=one.axis, factors=list(one.factors))
            for one in tiles
        ],
        script=script,
        script_error=script_error,
        run_seconds=list(record.run_seconds),
        error_text=record.error_text,
        board_state=record.board_state,
        origin=record.origin,
        served=record.served,
        repeats=record.repeats,
    )


def schedule_document(schedule: ListedSchedule) -> ScheduleDocument:
    return ScheduleDocument(
        **_key(schedule.key),
        record_id=schedule.record_id,
        module_hash=schedule.module_hash,
        seconds=schedule.seconds,
        emulated=schedule.emulated,
        source=schedule.source,
        created_at=schedule.created_at,
    )


def target_document(target: ListedTarget) -> TargetDocument:
    return TargetDocument(
        id=target.id,
        target=target.text,
        models=target.models,
        schedules=target.schedules,
        emulated_schedules=target.emulated_schedules,
    )


def _summary(record: ListedRecord) -> dict[str, Any]:
    return {
        **_key(record.key),
        "id": record.id,
        "module_hash": record.module_hash,
        "source": record.source,
        "verified": record.verified,
        "suspect": record.suspect,
        "emulated": record.emulated,
        "seconds": record.seconds,
        "error": record.error,
        "board": record.board,
        "board_class": record.board_class,
        "board_seconds": record.board_seconds,
        "created_at": record.created_at,
    }


def _key(key: ScheduleKey) -> dict[str, str]:
    return {
        "key": str(key),
        "op": key.op,
        "buffers": key.buffers,
        "target": key.target,
        "compiler": key.compiler,
        "workload_hash": key.workload_hash,
    }
