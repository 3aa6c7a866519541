"""The hit rate of a target, and the misses behind it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated

from fastapi import APIRouter, Query

from tunebook.cache.misses import MissReason
from tunebook.cache.statistics.coverage import NOTHING_STORED
from tunebook.cache.statistics.lookup_counts import Window
from tunebook.cache.statistics.missed_keys import MissedKeyFilter
from tunebook.cache.targets import canonical_target
from tunebook.service.api.documents.field_types import GivenMoment, RowId
from tunebook.service.api.documents.lookup_models import Pipeline
from tunebook.service.api.documents.pagination import DEFAULT_LIMIT, Cursor, Cursors, Limit, Page
from tunebook.service.api.documents.statistics_models import (
    HitRateDocument,
    MissCauseDocument,
    hit_rate_document,
    miss_cause_document,
)
from tunebook.service.api.guards.dependencies import Reader, StoreOf
from tunebook.service.given_fields import TargetText

router = APIRouter(tags=["hit rate"])

_CURSORS = Cursors("misses")


@router.get("/targets/{target_id}/hit-rate", summary="Read the hit rate of a target")
def read_hit_rate(
    target_id: RowId,
    store: StoreOf,
    token: Reader,
    window: Annotated[
        Window, Query(description="The span that ends now; `now` is the last hour.")
    ] = Window.DAY,
    pipeline: Annotated[
        Pipeline | None, Query(description="Only what this pipeline looked up.")
    ] = None,
) -> HitRateDocument:
    """How many of the keys that were looked up in a window did hit: in all, by bucket and by
    pipeline. Counts are complete but for the last seconds."""
    target = store.catalogue.target(target_id).text
    rate = store.statistics.hit_rate(target, window, datetime.now(timezone.utc), pipeline)
    return hit_rate_document(rate, store.statistics.coverage().get(target, NOTHING_STORED))


@router.get("/misses", summary="List misses by their cause")
def list_misses(
    store: StoreOf,
    token: Reader,
    target: TargetText | None = None,
    pipeline: Pipeline | None = None,
    reason: MissReason | None = None,
    since: Annotated[
        GivenMoment | None, Query(description="Only what was missed after this moment.")
    ] = None,
    mended: Annotated[bool, Query(description="Also what would hit now.")] = False,
    cursor: Cursor = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[MissCauseDocument]:
    """What was looked up in vain, as it was explained last: grouped by cause, that which was met
    last first. Of very many misses only the newest are grouped."""
    wanted = MissedKeyFilter(
        target=None if target is None else str(canonical_target(target)),
        pipeline=pipeline,
        reason=None if reason is None else reason.value,
        since=since,
        mended=mended,
    )
    (start,) = _CURSORS.decode(cursor) or (0,)
    found = store.statistics.missed_groups(wanted)
    end = start + limit
    return Page(
        items=[miss_cause_document(one) for one in found[start:end]],
        next=_CURSORS.encode(end) if len(found) > end else None,
    )
