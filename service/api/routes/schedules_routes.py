"""Schedules: what look-ups are answered with."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from tunebook.cache.lists.catalogue import ListedSchedule, ScheduleFilter, SchedulePosition
from tunebook.cache.targets import canonical_target
from tunebook.service.api.documents.field_types import KeyText, OpText, parse_key
from tunebook.service.api.documents.pagination import DEFAULT_LIMIT, Cursor, Cursors, Limit, Page
from tunebook.service.api.documents.record_models import ScheduleDocument, schedule_document
from tunebook.service.api.guards.dependencies import Reader, StoreOf
from tunebook.service.given_fields import TargetText

router = APIRouter(tags=["records"])

_CURSORS = Cursors("schedules", places=3)


@router.get("/schedules", summary="List schedules")
def list_schedules(
    store: StoreOf,
    token: Reader,
    key: KeyText | None = None,
    target: TargetText | None = None,
    op: OpText | None = None,
    emulated: Annotated[
        bool | None, Query(description="Those of emulated boards, or those of real ones.")
    ] = None,
    cursor: Cursor = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[ScheduleDocument]:
    """What is served, in the order in which workloads were stored."""
    wanted = ScheduleFilter(
        key=None if key is None else parse_key(key),
        target=None if target is None else str(canonical_target(target)),
        op=op,
        emulated=emulated,
    )
    place = _CURSORS.decode(cursor)
    after = None if place is None else SchedulePosition(place[0], place[1], bool(place[2]))
    found = store.catalogue.schedules(wanted, after=after, limit=limit + 1)
    schedules, following = _CURSORS.page(found, limit, _place)
    return Page(items=[schedule_document(one) for one in schedules], next=following)


def _place(schedule: ListedSchedule) -> tuple[int, ...]:
    position = schedule.position
    return position.workload_id, position.target_id, int(position.emulated)
