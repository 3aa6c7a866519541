"""The store: everything Tunebook knows, behind one contract.

This is a SKETCH of the contract: the owner of cache/ keeps the names and meaning, improves the
words, and splits the implementation over files that hold one idea each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tunebook.cache.keys import ScheduleKey, WorkloadKey
from tunebook.cache.misses import LookupAnswer
from tunebook.cache.records import Candidate, ErrorClass, Measurement, Model, Record


@dataclass(frozen=True)
class Budget:
    """A budget of trials for one model digest, shapes, target and compiler.

    granted = in flight + spent. `granted <= limit` always holds.
    """

    id: int
    limit: int
    granted: int
    spent: int
    board_seconds: float


@dataclass(frozen=True)
class TaskState:
    """A task in a job as the allocator sees it (read fresh before each planning)."""

    id: int
    key: ScheduleKey
    weight: int
    flops: float
    untuned_seconds: float | None
    best_seconds: float | None  # best verified-or-unverified successful record on this target
    served_seconds: float | None  # best verified (what a look-up would hit)
    trials: int  # records on this workload and target, failures included
    history: tuple[float, ...]  # best seconds after each finished round, oldest first
    exhausted: bool  # the search found nothing new to try
    failures: dict[ErrorClass, int]


@dataclass(frozen=True)
class RoundProposal:
    task_id: int
    size: int
    gain: float


@dataclass(frozen=True)
class Slot:
    number: int
    candidate: Candidate
    record_id: int | None  # set once its result is stored


@dataclass(frozen=True)
class ClaimedRound:
    id: int
    epoch: int
    job_id: int
    task_id: int
    key: ScheduleKey
    size: int  # trials granted by the budget for this round
    slots: tuple[Slot, ...]  # what a predecessor stored already (candidates, some with results)


@dataclass(frozen=True)
class StoredResult:
    record_id: int
    repeated: bool  # the slot was filled already: kept as a repeat, never charged


class Store:
    """See the sketch's methods."""

    # --- opening -----------------------------------------------------------------------------
    @classmethod
    def open(cls, url: str | None = None, *, read_only: bool = False) -> Store: ...
    def close(self) -> None: ...

    # --- models and workloads ----------------------------------------------------------------
    def save_model(self, model: Model) -> int:
        """Stores the model, its workloads (TIR compressed) and tasks; idempotent; gives its id."""

    def workload_tir(self, key: WorkloadKey) -> str: ...

    # --- look-ups ----------------------------------------------------------------------------
    def lookup(self, keys: Sequence[ScheduleKey], *, accept_emulated: bool = False) -> LookupAnswer:
        """All hits and all misses, from one snapshot. Hits only on the whole key, verified,
        not failed, trace on the allow-list, and not emulated unless asked."""

    # --- records -----------------------------------------------------------------------------
    def records(self, key: ScheduleKey) -> list[Record]:
        """Every record of a workload on a target, failures included, oldest first."""

    def mark_verified(self, record_id: int) -> None:
        """The record's output was compared on the board and agreed: it may be served."""

    def mark_failed(self, record_id: int, error: ErrorClass, text: str) -> None:
        """The record turned out wrong (wrong-output, implausible, crash when run again): it is a
        failure from now on, and what is served is chosen anew."""

    def unverified_best(self, key: ScheduleKey) -> list[Record]:
        """Successful, unverified records faster than the served one, fastest first."""

    # --- jobs and budgets --------------------------------------------------------------------
    def submit_job(
        self,
        model_id: int,
        board_class: str,
        *,
        trials: int | None,
        more: int | None,
        emulated: bool = False,
    ) -> int:
        """Creates the job for this model, or returns the one still open for the same model and
        board class (a killed run is resumed). `trials` raises (never lowers below spent) the
        budget's total to that number; `more` adds to what was spent."""

    def budget(self, job_id: int) -> Budget: ...
    def task_states(self, job_id: int) -> list[TaskState]: ...
    def set_untuned_seconds(self, task_id: int, seconds: float) -> None: ...
    def set_exhausted(self, task_id: int) -> None: ...
    def finish_job(self, job_id: int, state: str, reason: str = "") -> None: ...

    # --- rounds ------------------------------------------------------------------------------
    def propose_rounds(self, job_id: int, proposals: Sequence[RoundProposal]) -> int:
        """Makes rounds open, or changes the gain of those open and unclaimed; at most one open
        round per workload and target. Gives how many are open."""

    def claim_round(
        self, worker: str, job_id: int | None = None, board_classes: Sequence[str] | None = None
    ) -> ClaimedRound | None:
        """Claims the open round with the highest gain, expiring dead leases first; reserves its
        trials in the same transaction. A round whose budget grants nothing is closed."""

    def beat(self, round_id: int, epoch: int) -> None:
        """Raises LeaseLostError when another worker claimed the round meanwhile."""

    def store_candidates(
        self, round_id: int, epoch: int, candidates: Sequence[Candidate]
    ) -> tuple[Slot, ...]:
        """Numbers and stores what is going to be measured; a candidate whose module hash is
        already a record of this workload and target, or already in a slot, is left out."""

    def store_result(
        self, round_id: int, epoch: int, slot: int, measurement: Measurement
    ) -> StoredResult:
        """Stores one trial and charges it, in one transaction. Works for a worker that lost its
        lease too: an empty slot is filled once and charged once; a filled one keeps the result
        as a repeat. Board seconds are always charged."""

    def finish_round(self, round_id: int, epoch: int) -> None:
        """Closes the round, gives back what was granted and not charged, appends to history."""
