"""Boards by their class: those that are there now, and what a class was measured to be able to."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from tunebook.cache.lists.catalogue import ListedPeak
from tunebook.cache.queue.fleet import ServedBoard, WorkerPresence
from tunebook.service.api.documents.field_types import Moment
from tunebook.service.api.guards.dependencies import Reader, StoreOf

router = APIRouter(tags=["boards"])


class BoardDocument(BaseModel):
    """A board that is there now, and the worker that has it."""

    board: str
    worker: str
    host: str = Field(description="Where the worker runs.")
    emulated: bool
    cores: int
    compiler: str = Field(description="The compiler that the worker has, by which it splits.")
    state: dict[str, Any] = Field(description="What the board said of itself last.")
    activity: str = Field(description="What the worker does now.")


class PeakDocument(BaseModel):
    """What a class can do at most on a target, as it was measured."""

    target: str
    flops_per_second: float
    bytes_per_second: float
    measured_at: Moment


class BoardClassDocument(BaseModel):
    """A board class: the boards of it that are there, and its peaks."""

    board_class: str
    boards: list[BoardDocument]
    peaks: list[PeakDocument]


class BoardClasses(BaseModel):
    """All board classes, by name."""

    items: list[BoardClassDocument]
    next: None = Field(default=None, description="Always null: they are few.")


@router.get("/boards", summary="List boards")
def list_boards(
    store: StoreOf,
    token: Reader,
) -> BoardClasses:
    """The boards of workers that are alive, by class, and the classes that were there before."""
    served: dict[str, list[BoardDocument]] = {}
    for worker in store.fleet.workers():
        for board in worker.boards:
            served.setdefault(board.board_class, []).append(_board(worker, board))
    peaks: dict[str, list[PeakDocument]] = {}
    for peak in store.catalogue.board_peaks():
        peaks.setdefault(peak.board_class, []).append(_peak(peak))
    return BoardClasses(
        items=[
            BoardClassDocument(
                board_class=name,
                boards=sorted(served.get(name, ()), key=lambda one: (one.board, one.worker)),
                peaks=peaks.get(name, []),
            )
            for name in sorted(served.keys() | peaks.keys())
        ]
    )


def _board(worker: WorkerPresence, board: ServedBoard) -> BoardDocument:
    return BoardDocument(
        board=board.board,
        worker=worker.name,
        host=worker.host,
        emulated=board.emulated,
        cores=board.cores,
        compiler=worker.compiler,
        state=board.state,
        activity=worker.activity,
    )


def _peak(peak: ListedPeak) -> PeakDocument:
    return PeakDocument(
        target=peak.target,
        flops_per_second=peak.flops_per_second,
        bytes_per_second=peak.bytes_per_second,
        measured_at=peak.measured_at,
    )
