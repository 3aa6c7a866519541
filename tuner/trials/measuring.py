"""Measuring on one board, from a process that is killed when it does not answer in time."""

from __future__ import annotations

import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tunebook.cache.errors import BoardError, TunebookError
from tunebook.cache.records import ErrorClass, Measurement
from tunebook.cache.work import BoardPeak
from tunebook.tuner.child_process import (
    ChildDiedError,
    ChildProcess,
    ChildTimeoutError,
)
from tunebook.tuner.splitting.program import Program
from tunebook.tuner.trials.trials import (
    BoardAddress,
    BoardSettings,
    BuiltLibrary,
    GiveBoardBack,
    MeasureJob,
    MeasuringJob,
    NoBoard,
    TrialStarted,
    VerificationResult,
    VerifyJob,
)

_MODULE = "tunebook.tuner.trials.measure_process"
# A board that ends a session says so within this; a machine that is gone never does.
_GRACE_SECONDS = 5.0
# From a tracker's offer to the first answer of a board that exists.
_CONNECT_SECONDS = 30.0
# Beyond two run time limits: opening a session and uploading inputs.
_SESSION_MARGIN_SECONDS = 2.0

OutcomeT = TypeVar("OutcomeT", Measurement, VerificationResult)


@dataclass(frozen=True)
class _Lost:
    """The process that measured was given up or died after `seconds`, while `board` had a trial."""

    text: str
    board: str
    seconds: float


class Measurer:
    """Measures and verifies kernels on one board of a class, one at a time; thread-safe.

    A session on the board is kept from trial to trial and renewed after any fault. The board's
    threads are set to `num_cores`. `board_timeout` is how long to wait for a board, `run_timeout`
    how long a kernel may run at least before its board stops it. Times beyond `peak` are
    `implausible`; it may be set later, since measuring a peak takes a Measurer. A library's content
    must stay the same, since boards keep what they loaded. Every method raises BoardError when no
    board can be had.
    """

    def __init__(
        self,
        address: BoardAddress,
        *,
        num_cores: int,
        board_timeout: float = 60.0,
        run_timeout: float = 10.0,
        peak: BoardPeak | None = None,
    ) -> None:
        self.peak = peak
        self._settings = BoardSettings(
            address=address,
            num_cores=num_cores,
            board_timeout=board_timeout,
            run_timeout=run_timeout,
            session_seconds=2 * run_timeout + _SESSION_MARGIN_SECONDS,
        )
        self._lock = threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="tunebook-measure-")
        self._child: ChildProcess | None = None
        self._closed = False

    @property
    def num_cores(self) -> int:
        """The threads that a kernel gets."""
        return self._settings.num_cores

    def measure(
        self, library: BuiltLibrary, program: Program, *, best_seconds: float | None = None
    ) -> Measurement:
        """Times a kernel. One much slower than `best_seconds` is run only as often as that takes.

        Whatever goes wrong on the board is in the Measurement.
        """
        return self._measure(
            MeasureJob(self._settings, program, library, best_seconds, self._believed_peak)
        )

    def measure_single_runs(
        self, library: BuiltLibrary, program: Program, runs: int
    ) -> Measurement:
        """Times so many runs one by one: the fastest is one that nothing disturbed."""
        return self._measure(MeasureJob(self._settings, program, library, single_runs=runs))

    def verify(
        self, candidate: BuiltLibrary, reference: BuiltLibrary, program: Program
    ) -> VerificationResult:
        """Compares a candidate's outputs with the unscheduled program's, on random inputs."""
        job = VerifyJob(self._settings, program, candidate, reference)
        outcome = self._ask(job, VerificationResult)
        if isinstance(outcome, VerificationResult):
            return outcome
        return VerificationResult(False, outcome.text, ErrorClass.BOARD_LOST)

    def give_board_back(self) -> None:
        """Lets others have the board until the next trial, after the one in hand."""
        with self._lock, suppress(ChildDiedError):
            if self._child is not None:
                self._child.send(GiveBoardBack())

    def close(self) -> None:
        """Gives the board back and ends the process, and with it a trial. May be called twice."""
        self._closed = True
        child = self._child
        if child is not None:
            child.kill()  # a thread that waits for its answer holds the lock
        with self._lock:
            self._drop_child()
            self._folder.cleanup()

    def __enter__(self) -> Measurer:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @property
    def _believed_peak(self) -> BoardPeak | None:
        # An emulator's arithmetic costs what it makes of it: a peak of our kernels bounds nothing.
        return None if self._settings.address.emulated else self.peak

    def _measure(self, job: MeasureJob) -> Measurement:
        outcome = self._ask(job, Measurement)
        return outcome if isinstance(outcome, Measurement) else self._lost_measurement(outcome)

    def _lost_measurement(self, lost: _Lost) -> Measurement:
        address = self._settings.address
        return Measurement(
            error=ErrorClass.BOARD_LOST,
            error_text=lost.text,
            board=lost.board,
            board_class=address.board_class,
            emulated=address.emulated,
            board_seconds=lost.seconds,
        )

    def _ask(self, job: MeasuringJob, kind: type[OutcomeT]) -> OutcomeT | _Lost:
        with self._lock:
            try:
                return self._ask_once(job, kind)
            except ChildDiedError:  # between two trials, or before a board had this one
                return self._ask_once(job, kind)

    def _ask_once(self, job: MeasuringJob, kind: type[OutcomeT]) -> OutcomeT | _Lost:
        board: str | None = None
        began = 0.0
        try:
            child = self._running_child()
            child.forget_output()
            child.send(job)
            deadline = time.monotonic() + self._settings.board_timeout + _CONNECT_SECONDS
            while True:
                message = child.receive(max(0.0, deadline - time.monotonic()))
                if isinstance(message, TrialStarted):
                    now = time.monotonic()
                    began = began if board else now
                    board = message.board
                    deadline = now + message.seconds_left + _GRACE_SECONDS
                elif isinstance(message, NoBoard):
                    raise BoardError(message.text)
                elif isinstance(message, kind):
                    return message
        except ChildTimeoutError as error:
            self._drop_child()
            if board is None:
                raise BoardError(f"no board answers: {error}; {self._hint()}") from error
            text = f"the board {board} did not answer in time and was given up"
        except ChildDiedError as error:
            self._drop_child()
            if board is None:
                raise
            text = f"the process that measures died: {error}"
        return _Lost(text, board, time.monotonic() - began)

    def _running_child(self) -> ChildProcess:
        if self._closed:
            raise TunebookError("the measuring is closed; open another Measurer")
        if self._child is None:
            self._child = ChildProcess(_MODULE, Path(self._folder.name))
            try:
                self._child.wait_until_ready()
            except TunebookError:
                self._drop_child()
                raise
        return self._child

    def _drop_child(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    def _hint(self) -> str:
        address = self._settings.address
        where = f"{address.tracker_host}:{address.tracker_port}"
        return f"check the boards of class '{address.board_class}' at the tracker {where}"
