"""A page of text about each kind of problem, at the address that is its type."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import PlainTextResponse

from tunebook.service.api.problems.problem_types import PROBLEM_TYPES
from tunebook.service.api.problems.problems import Problem

router = APIRouter(include_in_schema=False)


@router.get("/problems")
async def list_problems() -> PlainTextResponse:
    """Every kind of problem, one a line."""
    lines = [f"{kind.status}  {name}  {kind.title}" for name, kind in PROBLEM_TYPES.items()]
    return PlainTextResponse("\n".join(sorted(lines)) + "\n")


@router.get("/problems/{name}")
async def explain_problem(name: str) -> PlainTextResponse:
    """What a kind of problem means and what to do next."""
    kind = PROBLEM_TYPES.get(name)
    if kind is None:
        raise Problem("not-found", "there is no problem of that name; /problems lists them")
    return PlainTextResponse(f"{kind.title}\n\nStatus {kind.status}\n\n{kind.page}\n")
