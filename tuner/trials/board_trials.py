"""Trials on one board: measuring a kernel, verifying one, and what went wrong when it did."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, replace

from tunebook.cache.errors import BoardError, TunebookError
from tunebook.cache.records import ErrorClass, Measurement
from tunebook.tuner.one_line import one_line
from tunebook.tuner.splitting.program import Program
from tunebook.tuner.trials.board_session import BoardSession
from tunebook.tuner.trials.plausibility import why_implausible
from tunebook.tuner.trials.tensors import Array, random_inputs
from tunebook.tuner.trials.timing import INSTRUCTIONS, SECONDS_PER_INSTRUCTION, time_kernel
from tunebook.tuner.trials.trials import (
    BoardSettings,
    BuiltLibrary,
    MeasureJob,
    MeasuringJob,
    NoBoard,
    SessionOpened,
    SessionTooShort,
    TrialDone,
    VerificationResult,
    VerifyJob,
)
from tunebook.tuner.trials.verify import compare, finite_share

# What ends a session, and what keeps a kernel off a board: texts of Tunebook's board server, and of
# TVM's own.
_ENDED = "BoardSessionEnded"
_NOT_KEPT = "BoardFileNotKept"
_OUT_OF_TIME = ("its time limit of", "RPCSessionTimeoutError")
# The board's end of a session and ours differ by no more than this.
_CLOCK_SECONDS = 0.3
# Until the tracker knows that a board which ended with its session is gone: mostly, and at most.
_GONE_SECONDS = 0.3
_LATEST_GONE_SECONDS = 3.0
# With less than this share of a reference finite, other inputs show more.
_FINITE_SHARE = 0.5
# Outputs of unscheduled programs are kept up to so many bytes, inputs included.
_KEPT_BYTES = 256 * 2**20

Outcome = Measurement | VerificationResult


@dataclass(frozen=True)
class Reference:
    """What the unscheduled program gave for these inputs."""

    inputs: list[Array]
    outputs: list[Array]

    @property
    def bytes(self) -> int:
        return sum(one.nbytes for one in (*self.inputs, *self.outputs))


class KeptReferences:
    """The references that were used last, up to `most_bytes` together."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[tuple[str, str], Reference] = OrderedDict()

    def find(self, name: tuple[str, str]) -> Reference | None:
        """One by the hashes of its workload and of its library's module."""
        if name in self._kept:
            self._kept.move_to_end(name)
        return self._kept.get(name)

    def keep(self, name: tuple[str, str], reference: Reference) -> None:
        self._kept[name] = reference
        while sum(one.bytes for one in self._kept.values()) > self._most_bytes:
            self._kept.popitem(last=False)


class _ReferenceFailed(Exception):
    """The unscheduled program did not finish; the cause is what was raised."""


class BoardTrials:
    """Holds a session from trial to trial, and ends it after any fault."""

    def __init__(self) -> None:
        self._session: BoardSession | None = None
        self._spent = 0.0  # on this board, for a trial that is still to come
        self._references = KeptReferences(_KEPT_BYTES)

    def open(self, settings: BoardSettings) -> SessionOpened | NoBoard:
        """A session that lasts for another kernel: the one that is open, or another."""
        if self._session is not None and not _lasts(self._session, settings):
            self._drop_session()
        fresh = self._session is None
        try:
            session = self._session or self._new_session(settings)
        except BoardError as error:
            return NoBoard(str(error))
        return SessionOpened(session.opened, session.seconds_left, fresh)

    def carry_out(self, job: MeasuringJob) -> TrialDone | SessionTooShort | NoBoard:
        """One trial's outcome, in the session that is open."""
        session = self._session
        if session is None:
            return NoBoard("the session on the board has ended")
        began = time.monotonic()
        try:
            if not _prepare(session, job):
                # Over a slow link inputs may use up a session.
                self._drop_session()
                self._spent += time.monotonic() - began
                return SessionTooShort(2 * session.limit)
            outcome = self._carry_out(session, job)
        except Exception as error:
            outcome = _failed(job, *self._fault(session, error))
            if isinstance(error, _ReferenceFailed) and isinstance(outcome, VerificationResult):
                # It says nothing about the candidate.
                outcome = replace(outcome, error=None)
            self._drop_session()
        outcome = self._with_board(outcome, session, job, began)
        return TrialDone(outcome, held=self._session is not None)

    def give_board_back(self) -> None:
        """Ends the session, if there is one; the next trial opens another."""
        self._drop_session()

    # --- the session -------------------------------------------------------------------------

    def _new_session(self, settings: BoardSettings) -> BoardSession:
        self._session = BoardSession(
            settings.address,
            num_cores=settings.num_cores,
            limit=settings.session_seconds,
            board_timeout=settings.board_timeout,
        )
        self._spent += self._session.opening_seconds
        return self._session

    def _drop_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    # --- the trial ---------------------------------------------------------------------------

    def _carry_out(self, session: BoardSession, job: MeasuringJob) -> Outcome:
        if isinstance(job, VerifyJob):
            return self._verify(session, job)
        return _measure(session, job)

    def _verify(self, session: BoardSession, job: VerifyJob) -> VerificationResult:
        reference = self._reference(session, job)
        found = _outputs(session, job.candidate, job.program, reference.inputs)
        return compare(job.program, reference.outputs, found)

    def _reference(self, session: BoardSession, job: VerifyJob) -> Reference:
        name = (job.program.key.hash, job.reference.module_hash)
        kept = self._references.find(name)
        if kept is None:
            try:
                kept = _run_reference(session, job)
            except TunebookError:
                raise
            except Exception as error:
                raise _ReferenceFailed from error
            self._references.keep(name, kept)
        return kept

    # --- what went wrong ---------------------------------------------------------------------

    def _fault(self, session: BoardSession, error: Exception) -> tuple[ErrorClass, str]:
        if isinstance(error, TunebookError):
            return ErrorClass.RUN, str(error)
        if isinstance(error, _ReferenceFailed) and isinstance(error.__cause__, Exception):
            kind, text = self._fault(session, error.__cause__)
            return kind, f"the unscheduled program, to compare with: {text}"
        return _classify(session, error)

    def _with_board(
        self, outcome: Outcome, session: BoardSession, job: MeasuringJob, began: float
    ) -> Outcome:
        spent, self._spent = self._spent + time.monotonic() - began, 0.0
        if isinstance(outcome, VerificationResult):
            return replace(outcome, board=session.opened.name)
        return replace(
            outcome,
            board=session.opened.name,
            board_class=job.settings.address.board_class,
            emulated=job.settings.address.emulated,
            board_seconds=spent,
        )


def _lasts(session: BoardSession, settings: BoardSettings) -> bool:
    return session.seconds_left >= settings.run_timeout


def _prepare(session: BoardSession, job: MeasuringJob) -> bool:
    """Brings the program's inputs to the board; whether the session lasts for its kernel then."""
    try:
        session.use_cores(job.settings.num_cores)
        session.buffers(job.program)
    except Exception:
        if session.seconds_left > _CLOCK_SECONDS:
            raise
        return False
    return session.seconds_left >= job.settings.run_timeout


def _measure(session: BoardSession, job: MeasureJob) -> Measurement:
    library = session.load(job.library.path)
    buffers = session.buffers(job.program)
    unit: dict[str, float | str] = {}

    def run(number: int, repeat: int) -> tuple[float, ...]:
        return session.time(library, buffers, number, repeat)

    if job.single_runs is not None:
        seconds = run(1, job.single_runs)
    elif session.counts_instructions:
        # Once: they are the same each time.
        counted = session.count_instructions(library, buffers)
        seconds, unit = (counted * SECONDS_PER_INSTRUCTION,), {"unit": INSTRUCTIONS}
    else:
        seconds = time_kernel(run, job.best_seconds)
    doubt = why_implausible(job.program, seconds, job.peak)
    if doubt is not None:
        return Measurement(error=ErrorClass.IMPLAUSIBLE, error_text=doubt)
    return Measurement(run_seconds=seconds, board_state={**session.state(), **unit})


def _run_reference(session: BoardSession, job: VerifyJob) -> Reference:
    inputs = random_inputs(job.program)
    outputs = _outputs(session, job.reference, job.program, inputs)
    share = finite_share(outputs)
    if share < _FINITE_SHARE:
        others = random_inputs(job.program, positive=True)
        found = _outputs(session, job.reference, job.program, others)
        if finite_share(found) > share:
            inputs, outputs = others, found
    return Reference(inputs, outputs)


def _outputs(
    session: BoardSession, library: BuiltLibrary, program: Program, inputs: list[Array]
) -> list[Array]:
    """What a library computes of fresh inputs: an earlier kernel may have written over others."""
    return session.outputs(session.load(library.path), program, inputs)


def _failed(job: MeasuringJob, error: ErrorClass, text: str) -> Outcome:
    if isinstance(job, VerifyJob):
        return VerificationResult(False, text, error)
    return Measurement(error=error, error_text=text)


def _classify(session: BoardSession, error: Exception) -> tuple[ErrorClass, str]:
    """How a call on the board failed: the kernel's fault, its time, or the board's end."""
    text = one_line(error)
    limit = f"the kernel did not finish before the board ended the session: {text}"
    if any(sign in text for sign in _OUT_OF_TIME):
        return ErrorClass.RUN_TIMEOUT, limit
    if _NOT_KEPT in text:
        # It says nothing about the kernel, and other boards may have room.
        return ErrorClass.BOARD_LOST, (
            f"the board {session.opened.name} cannot keep files: {text[text.index(_NOT_KEPT) :]}"
        )
    if _ENDED in text:
        return ErrorClass.RUN, f"the kernel crashed: {text[text.index(_ENDED) :]}"
    if session.is_alive():
        return ErrorClass.RUN, text
    is_over = session.seconds_left < _CLOCK_SECONDS + _GONE_SECONDS
    if _leaves_the_tracker(session, _GONE_SECONDS if is_over else _LATEST_GONE_SECONDS):
        return ErrorClass.BOARD_LOST, (
            f"the board {session.opened.name} left the tracker while it ran this (TVM's own "
            f"rpc_server does so when a kernel crashes, Tunebook's does not): {text}"
        )
    if is_over:
        return ErrorClass.RUN_TIMEOUT, limit
    return ErrorClass.RUN, f"the kernel ended the session: {text}"


def _leaves_the_tracker(session: BoardSession, seconds: float) -> bool:
    """Whether the board that served a session is gone, or goes within so many seconds."""
    until = time.monotonic() + seconds
    while True:
        time.sleep(_GONE_SECONDS)
        if not session.board_is_registered():
            return True
        if time.monotonic() >= until:
            return False
