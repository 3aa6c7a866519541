"""What can go wrong, in words: every error says what, where, and what to do next, in one line."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the command line; documented in docs/operations.md."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    MISS = 3
    BAD_MODEL = 4
    BAD_TARGET = 5
    NO_BOARD = 6
    DATABASE = 7
    BUDGET = 8
    INCOMPATIBLE = 9
    SERVER = 10
    INTERRUPTED = 130


class TunebookError(Exception):
    """An error that a user can act on; its text is one line."""

    exit_code: ExitCode = ExitCode.FAILURE
    problem_type: str = "failure"


class UsageError(TunebookError):
    """Options that do not fit together, or a value of the wrong form."""

    exit_code = ExitCode.USAGE
    problem_type = "usage"


class TargetError(TunebookError):
    """A target that is incomplete, unknown or contradicts itself."""

    exit_code = ExitCode.BAD_TARGET
    problem_type = "bad-target"


class ModelError(TunebookError):
    """A model that cannot be read, imported or split."""

    exit_code = ExitCode.BAD_MODEL
    problem_type = "bad-model"


class BoardError(TunebookError):
    """No board could be had, or the one that was had is gone."""

    exit_code = ExitCode.NO_BOARD
    problem_type = "no-board"


class DatabaseError(TunebookError):
    """The database is missing, locked, read-only, full, or of another version."""

    exit_code = ExitCode.DATABASE
    problem_type = "database"


class NotFoundError(TunebookError):
    """Nothing of this number or name is stored."""

    problem_type = "not-found"


class BudgetError(TunebookError):
    """A budget that cannot serve what it is for."""

    exit_code = ExitCode.BUDGET
    problem_type = "budget"


class IncompatibleError(TunebookError):
    """An installed library that this version of Tunebook cannot work with."""

    exit_code = ExitCode.INCOMPATIBLE
    problem_type = "incompatible"


class UntrustedTraceError(TunebookError):
    """A trace that holds an instruction or annotation outside the list of what is ever replayed."""

    problem_type = "untrusted-trace"


class UntrustedProgramError(TunebookError):
    """A program from outside that holds a part outside the list of what is ever loaded."""

    problem_type = "untrusted-program"


class InterchangeError(TunebookError):
    """Files of another program that cannot be read here, or that would be overwritten."""

    problem_type = "interchange"


class LeaseLostError(TunebookError):
    """A round or a job's stage is another worker's meanwhile, or over; stop writing to it."""

    problem_type = "lease-lost"


class IdempotencyError(TunebookError):
    """An idempotency key was used before for something else."""

    problem_type = "idempotency-key-reused"


class ServerError(TunebookError):
    """A coordinator that cannot be reached, or that refuses whoever asks or what it is told."""

    exit_code = ExitCode.SERVER
    problem_type = "server"


class UnreachableError(ServerError):
    """A coordinator that did not answer, or said that it cannot now: asking again may help."""


class ModelNotSplitError(TunebookError):
    """A model that was never split for a target, of which therefore no key is known."""

    exit_code = ExitCode.SERVER
    problem_type = "model-not-split"


class AmbiguousModelError(TunebookError):
    """A model that was split in several ways, where nothing says which is meant."""

    exit_code = ExitCode.SERVER
    problem_type = "ambiguous-model"
