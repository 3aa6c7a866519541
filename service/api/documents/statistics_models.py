"""Hit rates and misses as documents."""

from __future__ import annotations

from datetime import timedelta

from pydantic import BaseModel, Field

from tunebook.cache.remote.miss_documents import DifferenceDocument, miss_document
from tunebook.cache.statistics.coverage import Coverage
from tunebook.cache.statistics.lookup_counts import HitCount, HitRate, HitSeries
from tunebook.cache.statistics.missed_keys import MissedGroup, MissedKey
from tunebook.service.api.documents.field_types import Moment

# Of one cause so many misses are told at most, those that were missed last.
_SHOWN = 100


class HitCountDocument(BaseModel):
    """How many keys were looked up and hit or missed; `rate` is the share that hit, null where
    nothing was looked up."""

    hits: int
    misses: int
    rate: float | None
    reasons: dict[str, int] = Field(description="Misses by their reason.")


class HitPointDocument(HitCountDocument):
    """A bucket of a window: from `start` for `bucket_seconds`."""

    start: Moment


class PipelineHitRateDocument(HitCountDocument):
    """What one pipeline looked up; `unnamed` are callers that gave no name, `other` those beyond
    the number of pipelines that are counted by name."""

    pipeline: str
    points: list[HitPointDocument]


class CoverageDocument(BaseModel):
    """Of the keys that builds of the target's stored models would look up now, how many would
    hit."""

    keys: int
    served: int
    rate: float | None


class HitRateDocument(HitCountDocument):
    """What was looked up on a target in a window; of the pipelines that with the lowest rate comes
    first."""

    target: str
    window: str
    start: Moment
    end: Moment
    bucket_seconds: int
    points: list[HitPointDocument]
    pipelines: list[PipelineHitRateDocument]
    stored_models: CoverageDocument


class MissedKeyDocument(BaseModel):
    """A key that a pipeline missed, with what is nearest to it."""

    key: str
    pipeline: str
    count: int = Field(description="How often it was missed.")
    first_at: Moment
    last_at: Moment
    mended: bool = Field(description="Whether it would hit now.")
    nearest: str | None
    differences: list[DifferenceDocument]
    explanation: str


class MissCauseDocument(BaseModel):
    """Misses of one cause: `keys` of them (of which `misses` tells the newest), missed `count`
    times in all. `mending_command` is for all of them; MODEL stands for the model's file."""

    cause: str
    reason: str
    target: str
    count: int
    keys: int
    last_at: Moment
    mending_command: str
    misses: list[MissedKeyDocument]


def hit_rate_document(rate: HitRate, coverage: Coverage) -> HitRateDocument:
    """The hit rate of a target as machines read it."""
    bucket = timedelta(minutes=rate.window.bucket_minutes)
    return HitRateDocument(
        target=rate.target,
        window=rate.window.value,
        start=rate.start,
        end=rate.start + bucket * rate.window.buckets,
        bucket_seconds=int(bucket.total_seconds()),
        **_counted(rate.series.total).model_dump(),
        points=_points(rate, rate.series),
        pipelines=[
            PipelineHitRateDocument(
                pipeline=one.pipeline,
                **_counted(one.total).model_dump(),
                points=_points(rate, one),
            )
            for one in rate.pipelines
        ],
        stored_models=CoverageDocument(
            keys=coverage.keys, served=coverage.served, rate=coverage.rate
        ),
    )


def _points(rate: HitRate, series: HitSeries) -> list[HitPointDocument]:
    bucket = timedelta(minutes=rate.window.bucket_minutes)
    return [
        HitPointDocument(start=rate.start + bucket * number, **_counted(count).model_dump())
        for number, count in enumerate(series.buckets)
    ]


def _counted(count: HitCount) -> HitCountDocument:
    return HitCountDocument(
        hits=count.hits, misses=count.misses, rate=count.rate, reasons=dict(count.reasons)
    )


def miss_cause_document(found: MissedGroup) -> MissCauseDocument:
    """Misses of one cause as machines read them."""
    return MissCauseDocument(
        cause=found.group.cause,
        reason=found.group.reason.value,
        target=found.group.misses[0].key.target,
        count=found.count,
        keys=len(found.group.misses),
        last_at=found.last_at,
        mending_command=found.group.mending_command,
        misses=[_missed_key(one) for one in found.keys[:_SHOWN]],
    )


def _missed_key(missed: MissedKey) -> MissedKeyDocument:
    told = miss_document(missed.miss)
    return MissedKeyDocument(
        key=told.key,
        pipeline=missed.pipeline,
        count=missed.count,
        first_at=missed.first_at,
        last_at=missed.last_at,
        mended=missed.mended,
        nearest=told.nearest,
        differences=told.differences,
        explanation=told.explanation,
    )
