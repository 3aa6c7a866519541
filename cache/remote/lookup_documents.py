"""The answer to a look-up as it goes over HTTP: made by the coordinator, read by its clients."""

from __future__ import annotations

import hashlib

from pydantic import BaseModel

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import LookupAnswer
from tunebook.cache.records import Schedule, Source
from tunebook.cache.remote.miss_documents import MissDocument, miss_document, miss_of


class HitDocument(BaseModel):
    """A schedule that is served. `trace` is MetaSchedule's, as JSON text; `module_hash` that of the
    module which it schedules to; `seconds` the median run time."""

    key: str
    record_id: int
    trace: str
    module_hash: str
    seconds: float
    emulated: bool
    source: str


class CountsDocument(BaseModel):
    """How many keys hit, and how many missed."""

    hits: int
    misses: int


class LookupDocument(BaseModel):
    """The answer, from one snapshot: every key is in `hits` or in `misses`. `digest` changes with
    it; `passed_over` says which records were refused, and what is served instead."""

    digest: str
    hits: list[HitDocument]
    misses: list[MissDocument]
    counts: CountsDocument
    passed_over: list[str]


def lookup_document(answer: LookupAnswer) -> LookupDocument:
    """The answer as machines read it."""
    document = LookupDocument(
        digest="",
        hits=[_hit(one) for one in answer.hits.values()],
        misses=[miss_document(miss) for miss in answer.misses],
        counts=CountsDocument(hits=len(answer.hits), misses=len(answer.misses)),
        passed_over=list(answer.passed_over),
    )
    document.digest = hashlib.sha256(document.model_dump_json().encode()).hexdigest()
    return document


def lookup_answer(document: LookupDocument) -> LookupAnswer:
    """What a document says. Raises ValueError for one that says it in another form."""
    schedules = [_schedule(hit) for hit in document.hits]
    return LookupAnswer(
        hits={schedule.key: schedule for schedule in schedules},
        misses=tuple(miss_of(miss) for miss in document.misses),
        passed_over=tuple(document.passed_over),
    )


def _hit(schedule: Schedule) -> HitDocument:
    return HitDocument(
        key=str(schedule.key),
        record_id=schedule.record_id,
        trace=schedule.trace,
        module_hash=schedule.module_hash,
        seconds=schedule.seconds,
        emulated=schedule.emulated,
        source=schedule.source.value,
    )


def _schedule(hit: HitDocument) -> Schedule:
    return Schedule(
        key=ScheduleKey.parse(hit.key),
        record_id=hit.record_id,
        trace=hit.trace,
        module_hash=hit.module_hash,
        seconds=hit.seconds,
        emulated=hit.emulated,
        source=Source(hit.source),
    )
