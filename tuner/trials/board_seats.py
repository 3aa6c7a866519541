"""The boards that a pool can use at once: who has one, and whether another may be asked for."""

from __future__ import annotations

import enum
import threading

from tunebook.tuner.trials.board_holder import BoardHolder
from tunebook.tuner.trials.board_tracker import BoardsThere
from tunebook.tuner.trials.boards_aside import BoardsAside
from tunebook.tuner.trials.trials import OpenedBoard


class SeatState(enum.Enum):
    """What one of a pool's seats does."""

    AWAY = "has no board"
    ASKING = "waits for one"
    IDLE = "has one, and nothing to do"
    BUSY = "measures"


class Seat:
    """Room for one board: a thread, and a process with a session."""

    def __init__(self) -> None:
        self.holder = BoardHolder()
        self.state = SeatState.AWAY
        self.thread: threading.Thread | None = None

    @property
    def board(self) -> OpenedBoard | None:
        """The board that it has."""
        has_one = self.state in (SeatState.IDLE, SeatState.BUSY)
        return self.holder.board if has_one else None


class Seats:
    """All seats of a pool; not thread-safe."""

    def __init__(self, count: int) -> None:
        self.all = [Seat() for _ in range(count)]

    @property
    def held(self) -> list[OpenedBoard]:
        """The boards that they have."""
        return [board for seat in self.all if (board := seat.board) is not None]

    @property
    def are_empty(self) -> bool:
        """Whether none has a board, and none waits for one."""
        return all(seat.state is SeatState.AWAY for seat in self.all)

    @property
    def coming(self) -> int:
        """How many take a trial at once, or as soon as they get a board."""
        return sum(seat.state in (SeatState.IDLE, SeatState.ASKING) for seat in self.all)

    def may_ask(self, there: BoardsThere, aside: BoardsAside) -> bool:
        """Whether one more may ask the tracker: where boards are left that may come to it. Of those
        that nobody has several may be asked for at once; one seat alone waits for others' boards,
        so that workers take turns."""
        held = {board.name for board in self.held}
        asking = sum(seat.state is SeatState.ASKING for seat in self.all)
        usable = [one for one in there.servers if one.label not in aside]
        if len(held) + asking >= len(usable):
            return False
        idle = [one for one in there.servers if not one.serving and one.label not in held]
        if idle and all(one.label in aside for one in idle):
            return False
        return asking == 0 or there.free > asking
