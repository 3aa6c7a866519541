"""Every board that anybody knows: its agent, the workers that have it, or its reference's runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tunebook.cache.board_names import own_class
from tunebook.cache.boards.board_reports import BoardState
from tunebook.cache.queue.fleet import ServedBoard, WorkerPresence


class Standing(str, Enum):
    """How a board is there, in the one word that matters most.

    `quarantined`: it drifted, and measures nothing but its reference. `silent`: its agent has not
    reported lately. `serving`: somebody measures on it now. `there`: it is free. `away`: its agent
    reports that it is not at the tracker, or nobody has it any more.
    """

    QUARANTINED = "quarantined"
    SILENT = "silent"
    SERVING = "serving"
    THERE = "there"
    AWAY = "away"


@dataclass(frozen=True)
class HoldingWorker:
    """A worker that has a board, and what the board said to it last, where it said anything."""

    worker: WorkerPresence
    board: ServedBoard


@dataclass(frozen=True)
class KnownBoard:
    """A board, its state where agent or reference told of it, and the workers that have it."""

    board_class: str
    name: str
    state: BoardState | None
    holders: tuple[HoldingWorker, ...]

    @property
    def standing(self) -> Standing:
        report = None if self.state is None else self.state.report
        if self.state is not None and self.state.quarantine:
            return Standing.QUARANTINED
        if self.state is not None and self.state.silent:
            return Standing.SILENT
        if (report is not None and report.serving) or self.said.get("serving") is True:
            return Standing.SERVING
        if self.holders if report is None else report.registered:
            return Standing.THERE
        return Standing.AWAY

    @property
    def cores(self) -> int | None:
        """How many cores it has, where anybody says."""
        if self.state is not None and self.state.report is not None:
            return self.state.report.cores
        return next((one.board.cores for one in self.holders if one.board.cores), None)

    @property
    def emulated(self) -> bool:
        return any(one.board.emulated for one in self.holders)

    @property
    def said(self) -> dict[str, Any]:
        """What the board said of itself to workers, the last of them by name counting most."""
        return {name: value for one in self.holders for name, value in one.board.state.items()}


def known_boards(
    states: Iterable[BoardState], workers: Sequence[WorkerPresence]
) -> tuple[KnownBoard, ...]:
    """Every board, by class and name; each once, however many workers have it."""
    stored = {(state.board_class, state.name): state for state in states}
    holders: dict[tuple[str, str], list[HoldingWorker]] = {}
    for worker in workers:
        for board in worker.boards:
            place = (own_class(board.board_class), board.board)
            holders.setdefault(place, []).append(HoldingWorker(worker, board))
    return tuple(
        KnownBoard(*place, stored.get(place), tuple(holders.get(place, ())))
        for place in sorted(stored.keys() | holders.keys())
    )
