"""Problems that a coordinator answers with, as the errors that they stand for."""

from __future__ import annotations

from pydantic import BaseModel, Field, ValidationError

from tunebook.cache.errors import (
    AmbiguousModelError,
    BoardError,
    BudgetError,
    IdempotencyError,
    InterchangeError,
    LeaseLostError,
    ModelError,
    ModelNotSplitError,
    NotFoundError,
    ServerError,
    TargetError,
    TunebookError,
    UnreachableError,
    UntrustedProgramError,
    UntrustedTraceError,
    UsageError,
)
from tunebook.cache.misses import ScheduleMissError
from tunebook.cache.remote.miss_documents import MissDocument, miss_of
from tunebook.cache.remote.retries import BUSY, GOING_AWAY

# Errors that mean the same at a coordinator as here. Its database, for one, is not ours.
_ERRORS: dict[str, type[TunebookError]] = {
    error.problem_type: error
    for error in (
        AmbiguousModelError,
        BoardError,
        BudgetError,
        IdempotencyError,
        InterchangeError,
        LeaseLostError,
        ModelError,
        ModelNotSplitError,
        NotFoundError,
        TargetError,
        UntrustedProgramError,
        UntrustedTraceError,
        UsageError,
    )
}
_SHOWN_ERRORS = 3
_UNAUTHORIZED, _FORBIDDEN = 401, 403


class _Field(BaseModel):
    where: str
    message: str


class _Problem(BaseModel):
    type: str = ""
    title: str = ""
    detail: str = ""
    errors: list[_Field] = Field(default_factory=list)
    misses: list[MissDocument] = Field(default_factory=list)


def problem_error(server: str, status: int, body: bytes) -> TunebookError:
    """What an answer of this status, which is no success, stands for: ScheduleMissError with its
    misses, an error that means the same here, or ServerError; UnreachableError where the
    coordinator says that it cannot answer now."""
    try:
        problem = _Problem.model_validate_json(body)
    except ValidationError:
        return _error(status)(
            f"{server} answers with status {status} and no reason; check that the address is a "
            "coordinator's"
        )
    kind = problem.type.rpartition("/")[2]
    if kind == ScheduleMissError.problem_type and problem.misses:
        return _miss_error(server, problem)
    if kind in _ERRORS:
        return _ERRORS[kind](problem.detail or problem.title)
    fields = (f"{one.where}: {one.message}" for one in problem.errors[:_SHOWN_ERRORS])
    # The detail is often the first of them.
    told = "; ".join(dict.fromkeys([problem.detail or problem.title, *fields]))
    if status in (_UNAUTHORIZED, _FORBIDDEN):
        told += "; give one in TUNEBOOK_TOKEN"
    return _error(status)(f"{server} refuses: {told}")


def _error(status: int) -> type[ServerError]:
    return UnreachableError if status in (BUSY, *GOING_AWAY) else ServerError


def _miss_error(server: str, problem: _Problem) -> TunebookError:
    try:
        return ScheduleMissError([miss_of(one) for one in problem.misses])
    except ValueError as error:
        return ServerError(
            f"{server} is no coordinator of this version: {error}; check its version"
        )
