"""A process that holds a session on one board, and is killed when the board does not answer."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from tunebook.cache.errors import BoardError, TunebookError
from tunebook.cache.records import Measurement
from tunebook.tuner.child_process import ChildDiedError, ChildProcess, ChildTimeoutError
from tunebook.tuner.trials.trials import (
    BoardSettings,
    GiveBoardBack,
    MeasuringJob,
    NoBoard,
    OpenedBoard,
    OpenSession,
    SessionOpened,
    SessionTooShort,
    TrialDone,
    VerificationResult,
)

_MODULE = "tunebook.tuner.trials.measure_process"
# A board that ends a session says so within this; a machine that is gone never does.
_GRACE_SECONDS = 5.0
# From a tracker's offer to the first answer of a board that exists.
_CONNECT_SECONDS = 30.0
# What is measured on a board before its first trial may end the session, but not each time.
_MOST_OPENINGS = 3

OutcomeT = TypeVar("OutcomeT", Measurement, VerificationResult)

# Why a board on which a session was opened is not to be used now; None where it is.
OnOpened = Callable[[OpenedBoard], "str | None"]


class BoardRefusedError(BoardError):
    """A session was opened on a board that is not to be used now; it was given back."""

    def __init__(self, board: OpenedBoard, reason: str) -> None:
        super().__init__(f"the board {board.name} is not used: {reason}")
        self.board = board


@dataclass(frozen=True)
class Lost:
    """The process that measured was given up or died after `seconds`, while `board` had a trial."""

    text: str
    board: str
    seconds: float


class BoardHolder:
    """Holds one board of a class at a time, from trial to trial; thread-safe.

    A session is renewed after any fault, and when it lasts for no other kernel. `on_opened` is
    asked before the first trial of each.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._folder = tempfile.TemporaryDirectory(prefix="tunebook-measure-")
        self._child: ChildProcess | None = None
        self._child_is_ready = False
        self._board: OpenedBoard | None = None
        self._until = 0.0
        self._closed = False

    def start(self) -> None:
        """Starts the process already, without waiting: it loads TVM while others do too."""
        with self._lock:
            self._started_child()

    @property
    def board(self) -> OpenedBoard | None:
        """The board that was held when last heard of it."""
        return self._board

    def holds_for(self, seconds: float) -> bool:
        """Whether it holds a board, whose session lasts for so long at least."""
        return self._board is not None and self._until - time.monotonic() >= seconds

    def hold(self, settings: BoardSettings, on_opened: OnOpened | None = None) -> OpenedBoard:
        """The board that is held, or else one that the tracker gives.

        Raises BoardError when none can be had, BoardRefusedError for one that is not to be used.
        """
        with self._lock:
            for _ in range(_MOST_OPENINGS):
                opened = self._open(settings)
                if not opened.fresh or on_opened is None:
                    return opened.board
                reason = on_opened(opened.board)
                if reason is not None:
                    self.give_board_back()
                    raise BoardRefusedError(opened.board, reason)
        raise BoardError(
            f"the board {opened.board.name} ends each session before its first trial; "
            f"{_hint(settings)}"
        )

    def carry_out(
        self, job: MeasuringJob, kind: type[OutcomeT], on_opened: OnOpened | None = None
    ) -> OutcomeT | Lost:
        """A trial's outcome on the board that is held, or else on another. Raises BoardError when
        none can be had."""
        settings = job.settings
        with self._lock:
            while True:
                self.hold(settings, on_opened)
                outcome = self._ask(job, kind)
                if not isinstance(outcome, SessionTooShort):
                    return outcome
                settings = replace(settings, session_seconds=outcome.session_seconds)

    def carry_out_here(self, job: MeasuringJob, kind: type[OutcomeT]) -> OutcomeT | Lost:
        """A trial's outcome on the very board that is held."""
        with self._lock:
            board = self._board
            outcome = None if board is None else self._ask(job, kind)
        if outcome is not None and not isinstance(outcome, SessionTooShort):
            return outcome
        name = board.name if board is not None else ""
        return Lost("the session on the board has ended", name, 0.0)

    def give_board_back(self) -> None:
        """Lets others have the board until the next trial, after the one in hand."""
        with self._lock:
            self._board = None
            with suppress(ChildDiedError):
                if self._child is not None:
                    self._child.send(GiveBoardBack())

    def end(self) -> None:
        """Ends the process, and with it a trial, and waits for nobody."""
        self._closed = True
        child = self._child
        if child is not None:
            child.kill()  # a thread that waits for its answer holds the lock

    def close(self) -> None:
        """Gives the board back and ends the process, and with it a trial. May be called twice."""
        self.end()
        with self._lock:
            self._drop_child()
            self._folder.cleanup()

    # --- the process ---------------------------------------------------------------------------

    def _open(self, settings: BoardSettings) -> SessionOpened:
        try:
            return self._open_once(settings)
        except ChildDiedError:  # between two trials, or before it had a board
            return self._open_once(settings)

    def _open_once(self, settings: BoardSettings) -> SessionOpened:
        try:
            child = self._running_child()
            child.send(OpenSession(settings))
            answer = child.receive(settings.board_timeout + _CONNECT_SECONDS)
        except ChildTimeoutError as error:
            self._drop_child()
            raise BoardError(f"no board answers: {error}; {_hint(settings)}") from error
        except ChildDiedError:
            self._drop_child()
            raise
        if isinstance(answer, NoBoard):
            self._board = None
            raise BoardError(answer.text)
        assert isinstance(answer, SessionOpened)
        self._board = answer.board
        self._until = time.monotonic() + answer.seconds_left
        return answer

    def _ask(self, job: MeasuringJob, kind: type[OutcomeT]) -> OutcomeT | Lost | SessionTooShort:
        board, child = self._board, self._child
        assert board is not None and child is not None, "hold a board first"
        began = time.monotonic()
        try:
            child.forget_output()
            child.send(job)
            answer: Any = child.receive(max(0.0, self._until - began) + _GRACE_SECONDS)
        except ChildTimeoutError:
            text = f"the board {board.name} did not answer in time and was given up"
        except ChildDiedError as error:
            text = f"the process that measures died: {error}"
        else:
            if not isinstance(answer, TrialDone) or not answer.held:
                self._board = None
            if isinstance(answer, SessionTooShort):
                return answer
            if isinstance(answer, TrialDone):
                assert isinstance(answer.outcome, kind)
                return answer.outcome
            return Lost(answer.text, board.name, 0.0)
        self._drop_child()
        return Lost(text, board.name, time.monotonic() - began)

    def _started_child(self) -> ChildProcess:
        if self._closed:
            raise TunebookError("the measuring is closed; open another Measurer")
        if self._child is None:
            self._child = ChildProcess(_MODULE, Path(self._folder.name))
        return self._child

    def _running_child(self) -> ChildProcess:
        child = self._started_child()
        if not self._child_is_ready:
            try:
                child.wait_until_ready()
            except TunebookError:
                self._drop_child()
                raise
            self._child_is_ready = True
        return child

    def _drop_child(self) -> None:
        self._board = None
        self._child_is_ready = False
        if self._child is not None:
            self._child.close()
            self._child = None


def _hint(settings: BoardSettings) -> str:
    address = settings.address
    where = f"{address.tracker_host}:{address.tracker_port}"
    return f"check the boards of class '{address.board_class}' at the tracker {where}"
