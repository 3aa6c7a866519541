"""Targets that something was stored for."""

from __future__ import annotations

from fastapi import APIRouter

from tunebook.service.api.documents.field_types import RowId
from tunebook.service.api.documents.pagination import DEFAULT_LIMIT, Cursor, Cursors, Limit, Page
from tunebook.service.api.documents.record_models import TargetDocument, target_document
from tunebook.service.api.guards.dependencies import Reader, StoreOf

router = APIRouter(tags=["targets"])

_CURSORS = Cursors("targets")


@router.get("/targets", summary="List targets")
def list_targets(
    store: StoreOf, token: Reader, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT
) -> Page[TargetDocument]:
    """Targets, in the order in which they were stored."""
    place = _CURSORS.decode(cursor)
    found = store.catalogue.targets(after=0 if place is None else place[0], limit=limit + 1)
    targets, following = _CURSORS.page(found, limit, lambda target: (target.id,))
    return Page(items=[target_document(target) for target in targets], next=following)


@router.get("/targets/{target_id}", summary="Read a target")
def read_target(target_id: RowId, store: StoreOf, token: Reader) -> TargetDocument:
    """A target with how much is stored for it."""
    return target_document(store.catalogue.target(target_id))
