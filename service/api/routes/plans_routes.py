"""Plans: whether what is to be tuned fits a budget, from what was measured here."""

from __future__ import annotations

from datetime import datetime, timezone

from fastapi import APIRouter

from tunebook.service.api.guards.dependencies import Reader, StoreOf
from tunebook.service.plans.plan_documents import PlanDocument, PlanSubmission
from tunebook.service.plans.planning import make_plan

router = APIRouter(tags=["plans"])


@router.post("/plans", summary="Forecast a plan")
def forecast_plan(
    submission: PlanSubmission,
    store: StoreOf,
    token: Reader,
) -> PlanDocument:
    """What it takes to tune models for targets at measured rates, whether that fits a budget, what
    would where it does not, and what another hour would be expected to bring. Changes nothing."""
    return make_plan(store, submission, datetime.now(timezone.utc))
