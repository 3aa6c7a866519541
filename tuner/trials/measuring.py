"""Measuring on one board, from a process that is killed when it does not answer in time."""

from __future__ import annotations

from collections.abc import Callable

from tunebook.cache.records import ErrorClass, Measurement
from tunebook.cache.work import BoardPeak
from tunebook.tuner.board_features import missing_features
from tunebook.tuner.splitting.program import Program
from tunebook.tuner.trials.board_holder import BoardHolder, Lost, OutcomeT
from tunebook.tuner.trials.trials import (
    BoardAddress,
    BoardSettings,
    BuiltLibrary,
    MeasureJob,
    MeasuringJob,
    OpenedBoard,
    VerificationResult,
    VerifyJob,
)

# Beyond two run time limits: opening a session and uploading inputs.
_SESSION_MARGIN_SECONDS = 2.0


class Measurer:
    """Measures and verifies kernels on one board of a class, one at a time; thread-safe.

    A session on the board is kept from trial to trial and renewed after any fault. The board's
    threads are set to `num_cores`. `board_timeout` is how long to wait for a board, `run_timeout`
    how long a kernel may run at least before its board stops it. Times beyond `peak` are
    `implausible`; it may be set later, since measuring a peak takes a Measurer. A library's content
    must stay the same, since boards keep what they loaded. Every method raises BoardError when no
    board can be had. `holder` has the board, and is shared with others where it is given; `check`
    is asked about each board on which a session is opened.
    """

    def __init__(
        self,
        address: BoardAddress,
        *,
        num_cores: int,
        board_timeout: float = 60.0,
        run_timeout: float = 10.0,
        peak: BoardPeak | None = None,
        check: BoardCheck | None = None,
        holder: BoardHolder | None = None,
    ) -> None:
        self.peak = peak
        self._settings = BoardSettings(
            address=address,
            num_cores=num_cores,
            board_timeout=board_timeout,
            run_timeout=run_timeout,
            session_seconds=2 * run_timeout + _SESSION_MARGIN_SECONDS,
        )
        self._check = check
        self._holder = holder or BoardHolder()

    @property
    def num_cores(self) -> int:
        """The threads that a kernel gets."""
        return self._settings.num_cores

    def hold_board(self) -> OpenedBoard:
        """Asks for a board, unless one is held. Raises BoardError, and BoardRefusedError for one
        that is not to be used."""
        return self._holder.hold(self._settings, self._on_opened)

    def measure(
        self, library: BuiltLibrary, program: Program, *, best_seconds: float | None = None
    ) -> Measurement:
        """Times a kernel. One far from `best_seconds` is run only as often as it takes to say so.

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
        return VerificationResult(False, outcome.text, ErrorClass.BOARD_LOST, outcome.board)

    def give_board_back(self) -> None:
        """Lets others have the board until the next trial, after the one in hand."""
        self._holder.give_board_back()

    def close(self) -> None:
        """Gives the board back and ends the process, and with it a trial. May be called twice."""
        self._holder.close()

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

    def _lost_measurement(self, lost: Lost) -> Measurement:
        address = self._settings.address
        return Measurement(
            error=ErrorClass.BOARD_LOST,
            error_text=lost.text,
            board=lost.board,
            board_class=address.board_class,
            emulated=address.emulated,
            board_seconds=lost.seconds,
        )

    def _ask(self, job: MeasuringJob, kind: type[OutcomeT]) -> OutcomeT | Lost:
        return self._holder.carry_out(job, kind, self._on_opened)

    def _on_opened(self, board: OpenedBoard) -> str | None:
        missing = missing_features(self._settings.address.features, board.features)
        if missing:
            return f"its CPU lacks {', '.join(missing)}"
        if self._check is None:
            return None
        return self._check(board, _OnThisSession(self._settings, self._holder))


class _OnThisSession(Measurer):
    """Measures in the session that is open, and opens none."""

    def __init__(self, settings: BoardSettings, holder: BoardHolder) -> None:
        super().__init__(
            settings.address,
            num_cores=settings.num_cores,
            run_timeout=settings.run_timeout,
            holder=holder,
        )

    def _ask(self, job: MeasuringJob, kind: type[OutcomeT]) -> OutcomeT | Lost:
        return self._holder.carry_out_here(job, kind)


# Is asked about a board on which a session was opened, before any trial: why it is not to be used
# now, None where it is. It may measure there; a session that ends meanwhile is a `board-lost`.
BoardCheck = Callable[[OpenedBoard, Measurer], "str | None"]
