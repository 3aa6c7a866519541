"""Boards by their class, what their agents report, and what completes a class's targets."""

from __future__ import annotations

from dataclasses import asdict
from shlex import quote
from typing import Annotated

from fastapi import APIRouter, Depends, Request

from tunebook.cache.board_names import board_address
from tunebook.service.api.documents.board_models import (
    BoardPath,
    ClassPath,
    DefaultsSubmission,
    OrdersDocument,
    ReportSubmission,
)
from tunebook.service.api.guards.dependencies import Reader, Role, StoreOf, Token, require
from tunebook.service.api.problems.problems import Problem
from tunebook.service.board_documents import BoardClasses, ClassDefaultsDocument, board_classes

router = APIRouter(tags=["boards"])

Admin = Annotated[Token, Depends(require(Role.ADMIN))]


async def token_for_board(
    request: Request, token: Annotated[Token, Depends(require(Role.BOARD))]
) -> Token:
    """The token of the board that the address names, or of an administrator."""
    address = board_address(request.path_params["board_class"], request.path_params["name"])
    if token.role is Role.BOARD and token.board != address:
        raise Problem(
            "forbidden",
            f"the token {token.name!r} is for the board {token.board}, and not for {address}; "
            f"`tunebook token create NAME --role board --board {quote(address)}` makes one that is",
        )
    return token


@router.get("/boards", summary="List boards")
def list_boards(store: StoreOf, token: Reader) -> BoardClasses:
    """Every board that an agent reported, that a worker has, or whose reference was measured, by
    class, and classes without boards that have defaults or peaks."""
    return board_classes(store)


@router.put("/boards/{board_class}/{name}", summary="Report a board")
def report_board(
    board_class: ClassPath,
    name: BoardPath,
    report: ReportSubmission,
    store: StoreOf,
    token: Annotated[Token, Depends(token_for_board)],
) -> OrdersDocument:
    """What a board's agent says of it, in place of what it said before. The token of a board is for
    that board alone. The first report of a class with a triple sets the class's defaults where
    there are none."""
    return OrdersDocument(**asdict(store.boards.report(board_class, name, report.report())))


@router.delete("/boards/{board_class}/{name}", summary="Forget a board", status_code=204)
def forget_board(board_class: ClassPath, name: BoardPath, store: StoreOf, token: Admin) -> None:
    """Forgets a board that is gone, with its baseline and quarantine. Its records stay as they are;
    a board whose agent reports is refused."""
    store.boards.forget(board_class, name)


@router.delete(
    "/boards/{board_class}/{name}/baseline",
    summary="Begin a board's baseline anew",
    status_code=204,
)
def begin_baseline(board_class: ClassPath, name: BoardPath, store: StoreOf, token: Admin) -> None:
    """Forgets what the board's reference kernel took, and ends its quarantine: for a board that is
    another from now on, such as one with a new cooler. What is suspect stays so until it is
    measured again."""
    store.boards.begin_baseline(board_class, name)


@router.put("/board-classes/{name}", summary="Set a class's defaults")
def set_class_defaults(
    name: ClassPath, defaults: DefaultsSubmission, store: StoreOf, token: Admin
) -> ClassDefaultsDocument:
    """What completes targets that leave out cores, triple or processor and name this class. Jobs
    that were submitted stay as they are."""
    return ClassDefaultsDocument(**asdict(store.boards.set_defaults(name, defaults.defaults())))
