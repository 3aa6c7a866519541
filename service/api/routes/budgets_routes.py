"""Budgets that jobs share: made, listed and read."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from tunebook.service.api.documents.budget_models import BudgetDocument, BudgetSubmission
from tunebook.service.api.documents.field_types import RowId
from tunebook.service.api.documents.idempotency import IdempotencyKey, idempotency
from tunebook.service.api.documents.pagination import DEFAULT_LIMIT, Cursor, Cursors, Limit, Page
from tunebook.service.api.guards.dependencies import Reader, StoreOf, Submitter
from tunebook.service.given_fields import Name

router = APIRouter(tags=["budgets"])

_CURSORS = Cursors("budgets")


@router.post(
    "/budgets",
    summary="Make a budget",
    status_code=201,
    response_model=BudgetDocument,
    responses={
        200: {
            "model": BudgetDocument,
            "description": "The budget that an earlier request with this Idempotency-Key made.",
        },
        201: {"description": "The budget was made; Location is its address."},
    },
)
def create_budget(
    submission: BudgetSubmission,
    request: Request,
    response: Response,
    store: StoreOf,
    token: Submitter,
    idempotency_key: IdempotencyKey = None,
) -> BudgetDocument:
    """Makes a budget for several jobs, which are then submitted with its number as `budget_id`."""
    budget_id, created = store.queue.create_budget(
        submission.name,
        submission.limits(),
        idempotency(f"token-{token.id}", idempotency_key, "budgets", submission),
    )
    response.status_code = 201 if created else 200
    response.headers["Location"] = f"{request.url.path}/{budget_id}"
    return BudgetDocument.of(store.queue.budget(budget_id))


@router.get("/budgets", summary="List budgets")
def list_budgets(
    store: StoreOf,
    token: Reader,
    name: Name | None = None,
    cursor: Cursor = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[BudgetDocument]:
    """Budgets that have a name, the newest first."""
    after = _CURSORS.decode(cursor)
    found = store.queue.budgets(name, after=None if after is None else after[0], limit=limit + 1)
    budgets, following = _CURSORS.page(found, limit, lambda budget: (budget.id,))
    return Page(items=[BudgetDocument.of(budget) for budget in budgets], next=following)


@router.get("/budgets/{budget_id}", summary="Read a budget")
def read_budget(budget_id: RowId, store: StoreOf, token: Reader) -> BudgetDocument:
    """A budget, of several jobs or of one, with what is left of it."""
    return BudgetDocument.of(store.queue.budget(budget_id))
