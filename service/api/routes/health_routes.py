"""Whether the coordinator lives, and whether it is ready for requests."""

from __future__ import annotations

import logging
from collections.abc import Callable

from fastapi import APIRouter, Request
from pydantic import BaseModel

from tunebook.cache.errors import TunebookError
from tunebook.cache.live.live import Live
from tunebook.service.api.problems.problems import Problem
from tunebook.service.api.processes.worker_processes import WorkerProcesses

_log = logging.getLogger(__name__)
router = APIRouter(include_in_schema=False)


class LiveDocument(BaseModel):
    """The coordinator answers."""

    status: str


class PartDocument(BaseModel):
    """A part of the coordinator; `detail` says what it lacks. Requests are answered without one
    that is degraded, only slower."""

    name: str
    ready: bool
    detail: str
    degraded: bool = False


class ReadyDocument(BaseModel):
    """Every part, and whether all of them are ready."""

    ready: bool
    parts: list[PartDocument]


@router.get("/healthz")
async def say_live() -> LiveDocument:
    """Says that the process answers, whatever else is wrong."""
    return LiveDocument(status="ok")


@router.get("/readyz")
def say_ready(request: Request) -> ReadyDocument:
    """Says whether everything that requests need is there; 503 names what is not."""
    state = request.app.state
    parts = [
        _part("database", state.store.check_reachable, "it cannot be read"),
        _part("schema", state.store.check_schema, "it is of another version, or unreadable"),
        _part("models", state.model_files.check, "the place of the models cannot be used"),
        _workers_part(state.workers),
        *_redis_part(state.live),
    ]
    lacking = [part for part in parts if not part.ready]
    if lacking:
        raise Problem(
            "not-ready",
            "; ".join(f"{part.name}: {part.detail}" for part in lacking),
            members={"ready": False, "parts": [part.model_dump() for part in parts]},
            headers={"Retry-After": "5"},
        )
    return ReadyDocument(ready=True, parts=parts)


def _part(name: str, check: Callable[[], None], otherwise: str) -> PartDocument:
    """A part that is ready where its check passes. What exactly is wrong names paths and hosts:
    that is for the log, and not for whoever asks without a token."""
    try:
        check()
    except TunebookError as error:
        _log.warning("a part is not ready", extra={"part": name, "error": str(error)})
        return PartDocument(name=name, ready=False, detail=f"{otherwise}; the log says why")
    return PartDocument(name=name, ready=True, detail="")


def _redis_part(live: Live) -> list[PartDocument]:
    """Nothing needs it; where none is given there is nothing to tell."""
    if not live.has_redis:
        return []
    detail = "" if live.is_up else "it is away, and everything goes on without; the log says why"
    return [PartDocument(name="redis", ready=True, detail=detail, degraded=bool(detail))]


def _workers_part(workers: WorkerProcesses | None) -> PartDocument:
    """Workers elsewhere come and go, and look-ups need none."""
    fault = None if workers is None else workers.fault()
    detail = fault or ("external" if workers is None else "")
    return PartDocument(name="worker", ready=fault is None, detail=detail)
