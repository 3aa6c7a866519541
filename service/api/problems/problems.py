"""Every error as a document of type `application/problem+json` (RFC 9457)."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tunebook.cache.errors import DatabaseError, TunebookError
from tunebook.service.api.problems.problem_types import PROBLEM_TYPES

_log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
_SHOWN_ERRORS = 20
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_LONGEST_DETAIL = 1_000
_BY_STATUS = {
    400: "bad-request",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    413: "too-large",
    415: "unsupported-media",
    422: "invalid",
    429: "too-many-requests",
}


class FieldError(BaseModel):
    """A field that cannot be read: its path (`body.workloads.0.op`), and what is wrong with it."""

    where: str
    message: str


class ProblemDocument(BaseModel):
    """A problem as machines read it; kinds of problems add members of their own. `type` is the
    address of a page about the kind, `instance` the address that was asked."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: list[FieldError] | None = None
    incident: str | None = None


class Problem(Exception):
    """An answer that is no success: a kind out of `problem_types`, one line of detail, and members
    of the document that this kind has beside."""

    def __init__(
        self,
        problem_type: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.problem_type = problem_type
        self.status = PROBLEM_TYPES[problem_type].status
        self.detail = " ".join(detail.split())[:_LONGEST_DETAIL]
        self.headers = dict(headers or {})
        self.members = dict(members or {})

    def document(self, instance: str) -> dict[str, Any]:
        """The members of the document, for a request to this address."""
        return {
            "type": f"/problems/{self.problem_type}",
            "title": PROBLEM_TYPES[self.problem_type].title,
            "status": self.status,
            "detail": self.detail,
            "instance": instance,
            **self.members,
        }

    def response(self, scope: Scope) -> Response:
        """The answer to the request of this scope."""
        body = json.dumps(self.document(scope.get("path", "")), separators=(",", ":"))
        return Response(
            body.encode("ascii"), self.status, headers=self.headers, media_type=MEDIA_TYPE
        )


# What every route may answer beside its own.
PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {
        "description": description,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
    }
    for status, description in {
        "4XX": "What was asked for cannot be given; `type` says which kind of problem it is.",
        "5XX": "The coordinator cannot answer now; `type` says why.",
    }.items()
}


def problem_of(error: TunebookError) -> Problem:
    """The problem that an error of Tunebook's stands for."""
    detail = str(error)
    if isinstance(error, DatabaseError):
        # Where the database lies is for those who run the coordinator.
        _log.error("the database failed", extra={"error": detail})
        detail = "the database does not answer as it should; /readyz and the log say more"
    return Problem(error.problem_type, detail)


def install_problem_handlers(app: FastAPI) -> None:
    """Makes the application answer its errors as problems."""

    async def answer_problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return error.response(request.scope)

    async def answer_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, TunebookError)
        return problem_of(error).response(request.scope)

    async def answer_invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return _invalid(error.errors()).response(request.scope)

    async def answer_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _http_problem(request, error).response(request.scope)

    app.add_exception_handler(Problem, answer_problem)
    app.add_exception_handler(TunebookError, answer_error)
    app.add_exception_handler(RequestValidationError, answer_invalid)
    app.add_exception_handler(HTTPException, answer_http)


class ProblemBoundary:
    """Turns what the parts inside raise into answers. What nobody expected is answered with an
    incident number, under which the log, and only the log, has the traceback."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watched_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched_send)
        except Exception as error:
            problem = _problem_of_any(error, scope)
            if started:
                # Half an answer is there already: all that is left is to break it off.
                raise
            await problem.response(scope)(scope, receive, send)


def _problem_of_any(error: Exception, scope: Scope) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, TunebookError):
        return problem_of(error)
    return _incident(scope)


def _incident(scope: Scope) -> Problem:
    number = secrets.token_hex(6)
    _log.exception(
        "unexpected error",
        extra={"incident": number, "method": scope["method"], "path": scope["path"]},
    )
    return Problem(
        "unexpected",
        f"something failed that nobody expected; the coordinator's log has it as incident {number}",
        members={"incident": number},
    )


def _invalid(errors: Sequence[Any]) -> Problem:
    told = [
        FieldError(where=".".join(map(str, error["loc"])), message=str(error["msg"]))
        for error in errors[:_SHOWN_ERRORS]
    ]
    first = f"{told[0].where}: {told[0].message}" if told else "the request cannot be read"
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return Problem(
        "invalid", first + more, members={"errors": [error.model_dump() for error in told]}
    )


def _http_problem(request: Request, error: HTTPException) -> Problem:
    kind = _BY_STATUS.get(error.status_code)
    if kind is None:
        kind = "bad-request" if error.status_code < 500 else "failure"
    method, path = request.method, request.url.path
    allowed = ", ".join(_allowed_methods(request)) if kind == "method-not-allowed" else ""
    details = {
        # What FastAPI says of JSON with numbers or a nesting beyond what is read.
        "bad-request": f"{error.detail}; send JSON in UTF-8, not nested by the thousand",
        "not-found": f"there is nothing at {path}; /api/v1/openapi.json lists the addresses",
        "method-not-allowed": f"{method} cannot be done to {path}; it takes {allowed}",
    }
    headers = dict(error.headers or {})
    if kind == "method-not-allowed":
        headers["Allow"] = allowed
    return Problem(kind, details.get(kind, str(error.detail)), headers=headers)


def _allowed_methods(request: Request) -> list[str]:
    """What may be done to an address by any route; the router names only those of one."""
    return [
        method
        for method in _METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in request.app.routes
        )
    ]
