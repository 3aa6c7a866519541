"""What Prometheus reads."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from tunebook.service.api.guards.dependencies import Reader, get_metrics
from tunebook.service.api.metrics import CONTENT_TYPE_LATEST, Metrics

router = APIRouter(include_in_schema=False)


@router.get("/metrics")
def show_metrics(
    metrics: Annotated[Metrics, Depends(get_metrics)],
    token: Reader,
) -> Response:
    """Every metric in Prometheus' text format. It names targets and pipelines: for tokens only."""
    return Response(metrics.render(), headers={"Content-Type": CONTENT_TYPE_LATEST})
