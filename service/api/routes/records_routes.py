"""Records: every measured trial, failures included."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool

from tunebook.cache.errors import UntrustedTraceError
from tunebook.cache.lists.catalogue import RecordFilter
from tunebook.cache.records import ErrorClass, Source
from tunebook.cache.targets import canonical_target
from tunebook.cache.untrusted.tile_sizes import TileSizes, tile_sizes
from tunebook.service.api.documents.field_types import KeyText, OpText, RowId, parse_key
from tunebook.service.api.documents.pagination import DEFAULT_LIMIT, Cursor, Cursors, Limit, Page
from tunebook.service.api.documents.record_models import (
    RecordDocument,
    RecordSummary,
    record_document,
    record_summary,
)
from tunebook.service.api.guards.dependencies import Reader, StoreOf, get_scripts
from tunebook.service.api.processes.scripts import ScriptAnswer, Scripts
from tunebook.service.given_fields import TargetText

router = APIRouter(tags=["records"])

_CURSORS = Cursors("records")
_NOT_ASKED = ScriptAnswer(None, "it was not asked for")


@router.get("/records", summary="List records")
def list_records(
    store: StoreOf,
    token: Reader,
    key: KeyText | None = None,
    target: TargetText | None = None,
    op: OpText | None = None,
    error: Annotated[
        ErrorClass | None, Query(description="Those that failed in this way only.")
    ] = None,
    failed: Annotated[
        bool | None, Query(description="Those that failed in any way, or those that did not.")
    ] = None,
    verified: Annotated[
        bool | None, Query(description="Whether the output was compared and agreed.")
    ] = None,
    source: Annotated[Source | None, Query(description="Where the schedule came from.")] = None,
    suspect: Annotated[
        bool | None, Query(description="Whether its board had drifted when it was measured.")
    ] = None,
    cursor: Cursor = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[RecordSummary]:
    """Measured trials, the newest first."""
    wanted = RecordFilter(
        key=None if key is None else parse_key(key),
        target=None if target is None else str(canonical_target(target)),
        op=op,
        error=error,
        failed=failed,
        verified=verified,
        source=source,
        suspect=suspect,
    )
    place = _CURSORS.decode(cursor)
    found = store.catalogue.records(
        wanted, before=None if place is None else place[0], limit=limit + 1
    )
    records, following = _CURSORS.page(found, limit, lambda record: (record.id,))
    return Page(items=[record_summary(record) for record in records], next=following)


@router.get("/records/{record_id}", summary="Read a record")
async def read_record(
    record_id: RowId,
    store: StoreOf,
    scripts: Annotated[Scripts, Depends(get_scripts)],
    token: Reader,
    script: Annotated[
        bool, Query(description="With the scheduled program, which may take seconds to make.")
    ] = True,
) -> RecordDocument:
    """A measured trial: its trace, the scheduled program, tile sizes, how it failed, on which board
    and what that was like, and which record it was made from."""
    record = await run_in_threadpool(store.catalogue.record, record_id)
    answer = await scripts.of(record) if script else _NOT_ASKED
    return record_document(record, _tiles(record.trace), answer.text, answer.error)


def _tiles(trace: str) -> tuple[TileSizes, ...] | None:
    try:
        return tile_sizes(trace)
    except UntrustedTraceError:
        return None
