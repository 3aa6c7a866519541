"""A line of the log for each request that changed something, or went wrong."""

from __future__ import annotations

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger(__name__)

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
# They change nothing, and there are thousands a second; metrics count them.
_LOOKUPS = "/api/v1/lookups"


class RequestLog:
    """Logs requests with who asked and how they were answered. Of what only reads, those that
    failed on the coordinator's side are logged, and no others."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0

        async def watched_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched_send)
        finally:
            if status >= 500 or not _only_reads(scope):
                _write(scope, status, time.perf_counter() - started)


def _only_reads(scope: Scope) -> bool:
    return scope["method"] in _READING or scope["path"] == _LOOKUPS


def _write(scope: Scope, status: int, seconds: float) -> None:
    token = scope.get("state", {}).get("token")
    client = scope.get("client")
    _log.info(
        "%s %s",
        scope["method"],
        scope["path"],
        extra={
            "status": status,
            "milliseconds": round(seconds * 1e3, 1),
            "token": None if token is None else token.name,
            "client": None if client is None else client[0],
        },
    )
