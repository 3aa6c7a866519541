"""The store: everything Tunebook knows, behind one contract."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

from tunebook.cache.access import shared_secrets
from tunebook.cache.access.sessions import Sessions
from tunebook.cache.access.tokens import Tokens
from tunebook.cache.boards.boards import Boards
from tunebook.cache.keys import ScheduleKey, WorkloadKey
from tunebook.cache.likeness import NO_HINTS, LookupHints
from tunebook.cache.lists.catalogue import Catalogue
from tunebook.cache.live.news import News
from tunebook.cache.lookup import lookups, near_schedules
from tunebook.cache.lookup.answers import Answers
from tunebook.cache.lookup.near_schedules import NearSchedules
from tunebook.cache.misses import LookupAnswer, Miss
from tunebook.cache.queue import budgets, jobs, round_claims, rounds, slots, task_states
from tunebook.cache.queue.fleet import Fleet
from tunebook.cache.queue.job_queue import JobQueue
from tunebook.cache.queue.leases import LeaseObserver
from tunebook.cache.queue.planning import Planning
from tunebook.cache.records import (
    Candidate,
    ErrorClass,
    Measurement,
    Model,
    Record,
    Schedule,
    StoredModel,
    Workload,
)
from tunebook.cache.statistics.activity import ActivityReader
from tunebook.cache.statistics.lookup_statistics import LookupStatistics
from tunebook.cache.storage.database import Database
from tunebook.cache.storage.identities import read_workload
from tunebook.cache.storage.places import place_of
from tunebook.cache.storage.revisions import RevisionWatch
from tunebook.cache.stored import (
    adopted_records,
    board_peaks,
    known_workloads,
    stored_models,
    stored_records,
)
from tunebook.cache.stored.interchange_records import InterchangeRecords
from tunebook.cache.work import (
    BoardPeak,
    Budget,
    ClaimedRound,
    RoundProposal,
    Slot,
    StoredResult,
    TaskState,
)

__all__ = [
    "BoardPeak",
    "Budget",
    "ClaimedRound",
    "NearSchedules",
    "RoundProposal",
    "Slot",
    "Store",
    "StoredResult",
    "TaskState",
]

LEASE_SECONDS = 10.0


class Store:
    """What is stored and asked for; the only place where processes of Tunebook meet.

    The contract, which every database behind it keeps:

    - Each method is one transaction: it happens entirely or, when it raises, not at all. None
      stays open between calls, so a caller may build or measure for as long as it likes.
    - Many processes and threads may use one database at once. A Store is safe to share between
      threads; after a fork the child opens its own.
    - A look-up reads one snapshot, and hits only on the whole key. What it serves is verified, not
      a failure, measured on a real board (or an emulated one where asked for), and its trace holds
      nothing but what is on the allow-list of traces.py.
    - Budgets are exact: `granted <= limit` at every moment, whoever dies whenever. Trials are
      granted when a round is first claimed, stay with the round when a successor takes it over,
      are spent one by one in the transaction that stores the result, and go back when the round
      ends.
    - A workload on a target has one open round at most, whoever's job it is. One that nobody holds
      goes to whichever job proposes it next, so that a run that ended stands in nobody's way.
    - A round belongs to the worker that claimed it last. `beat`, `store_candidates` and
      `finish_round` of any other raise LeaseLostError; `store_result` still works for it, since a
      measurement that was made is not thrown away.
    - A lease dies when its round's beat has not moved for `lease_seconds` on the observer's
      monotonic clock, or at once when its process was on this machine and is gone. The wall clock
      decides nothing.
    - Faults of the database are DatabaseErrors of one line.

    What else there is stands in parts of their own, which keep the same contract: `interchange`,
    and what a coordinator needs: `queue`, `fleet`, `tokens`, `sessions`, `revisions`, `answers`,
    `statistics`, `catalogue`, `planning` and `boards`.
    """

    def __init__(self, database: Database, observer: LeaseObserver) -> None:
        self._database = database
        self._observer = observer
        self.fleet = Fleet(database, observer.another())
        self.queue = JobQueue(database, observer, self.fleet)
        self.interchange = InterchangeRecords(database)
        self.tokens = Tokens(database)
        self.sessions = Sessions(database)
        self.revisions = RevisionWatch(database)
        self.answers = Answers(database, self.revisions)
        self.statistics = LookupStatistics(database)
        self.catalogue = Catalogue(database)
        self.planning = Planning(database)
        self.boards = Boards(database)

    # --- opening -----------------------------------------------------------------------------
    @classmethod
    def open(
        cls,
        url: str | None = None,
        *,
        read_only: bool = False,
        lease_seconds: float = LEASE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> Store:
        """Opens the database at a URL or path (None: this user's own), and creates a SQLite file
        that is not there yet. `read_only` never writes, and needs the file to be there.

        Raises DatabaseError when it cannot be opened or is of another version.
        """
        database = Database.open(url, read_only=read_only)
        return cls(database, LeaseObserver(lease_seconds, monotonic))

    @property
    def url(self) -> str:
        """What opens this database again, in another process; it may hold a password."""
        return self._database.url

    def listen(self, listener: Callable[[str, float], None]) -> None:
        """Tells how long each transaction takes from now on: `read` or `write`, and seconds."""
        self._database.listen(listener)

    def follow(self, follower: Callable[[News], None]) -> None:
        """Tells from now on what this Store committed that others wait for: work, and events of
        jobs. The follower waits for nothing, and raises nothing."""
        self._database.follow(follower)

    def place(self) -> str:
        """A short text that tells this database apart from others that share a Redis with it."""
        return place_of(self._database)

    def shared_secret(self, name: str) -> bytes:
        """A secret of 32 bytes for one use that all who may write to this database share; made when
        it is first asked for."""
        with self._database.writing() as session:
            return shared_secrets.shared_secret(session, name)

    def watch_activity(self) -> ActivityReader:
        """Tells from now on what workers do, in one look after the other."""
        return ActivityReader(self._database)

    def check_reachable(self) -> None:
        """Raises DatabaseError where the database does not answer."""
        self._database.check_reachable()

    def check_schema(self) -> None:
        """Raises DatabaseError where the database is not, or no longer, of this version."""
        self._database.check_schema()

    def close(self) -> None:
        self.revisions.close()
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- models and workloads ----------------------------------------------------------------
    def save_model(self, model: Model) -> int:
        """Stores the model, its workloads (TIR compressed) and tasks; idempotent; gives its id."""
        with self._database.writing() as session:
            return stored_models.save_model(session, model)

    def find_model(self, digest: str, shapes: str, target: str, compiler: str) -> Model | None:
        """The model as it was split, the latest where its choices changed; needs no TVM."""
        with self._database.reading() as session:
            return stored_models.find_model(session, digest, shapes, target, compiler)

    def workload(self, key: WorkloadKey) -> Workload:
        """A stored workload with its TIR. Raises DatabaseError for one that is not stored."""
        with self._database.reading() as session:
            return read_workload(session, key)

    def find_workloads(
        self, workload_hash: str, buffers: str, compiler: str
    ) -> tuple[WorkloadKey, ...]:
        """The stored keys of a program whose op is not known, the oldest first: none where it was
        never stored, several where it was stored under several ops."""
        with self._database.reading() as session:
            return known_workloads.find_workloads(session, workload_hash, buffers, compiler)

    def models_holding(
        self, workloads: Sequence[WorkloadKey], target: str, limit: int = 16
    ) -> tuple[StoredModel, ...]:
        """The stored models on a canonical target that hold any of the workloads (of which the
        first 400 by hash count), at most `limit`: those with most of them first, of these the
        smallest."""
        with self._database.reading() as session:
            return known_workloads.models_holding(session, workloads, target, limit)

    # --- look-ups ----------------------------------------------------------------------------
    def lookup(
        self,
        keys: Sequence[ScheduleKey],
        *,
        accept_emulated: bool = False,
        hints: LookupHints = NO_HINTS,
    ) -> LookupAnswer:
        """All hits and all misses, from one snapshot. Hits only on the whole key, verified,
        not failed, trace on the allow-list, and not emulated unless asked; then a real board's
        schedule still comes first. Misses are in the order of `keys`, each key once; `hints`
        help to explain those of workloads that were never stored."""
        with self._database.reading() as session:
            return lookups.lookup(session, keys, accept_emulated, hints)

    def explain(
        self,
        keys: Sequence[ScheduleKey],
        *,
        accept_emulated: bool = False,
        hints: LookupHints = NO_HINTS,
    ) -> tuple[Miss, ...]:
        """Why keys miss that were looked up before, as `lookup` tells it of all of them together.
        Where look-ups are counted, this counts as none."""
        return self.lookup(keys, accept_emulated=accept_emulated, hints=hints).misses

    def near(
        self,
        key: ScheduleKey,
        *,
        emulated: bool = False,
        hints: LookupHints = NO_HINTS,
        limit: int = 8,
    ) -> tuple[NearSchedules, ...]:
        """Records whose traces may mend a miss of this key, nearest key first, in at most eight
        entries of at most `limit` records each. `emulated` is the kind of board that is going to
        measure them.

        First come the key's own records that cannot be served as they are: the imported ones
        (`unverified`), and where a real board measures those of emulated boards (`emulated-only`).
        Then come other keys, each once, in the order in which a miss would name them. Unlike there
        no record need be verified or served, nor be of the same kind of board. Each entry has the
        key's successful records only: those measured here before imported ones, those of the kind
        of board before the other kind, verified ones before others, and then the fastest."""
        with self._database.reading() as session:
            return near_schedules.near(session, key, emulated, hints, limit)

    def served(self, keys: Sequence[ScheduleKey], *, emulated: bool) -> tuple[Schedule, ...]:
        """What was chosen to be served of one kind of board for these keys, whether its trace is on
        the allow-list or not: for who looks after the cache, not for builds."""
        with self._database.reading() as session:
            return lookups.served(session, keys, emulated)

    # --- records -----------------------------------------------------------------------------
    def record(self, record_id: int) -> Record:
        """One record. Raises DatabaseError where there is none of this id."""
        with self._database.reading() as session:
            return stored_records.read_record(session, record_id)

    def records(self, key: ScheduleKey) -> list[Record]:
        """Every record of a workload on a target, failures included, oldest first."""
        with self._database.reading() as session:
            return stored_records.records_of(session, key)

    def training_records(
        self, target: str, compiler: str, limit: int, *, emulated: bool | None = None
    ) -> list[Record]:
        """Records with features of any workload on a target by a compiler, failures included,
        newest first; of one kind of board only, where given."""
        with self._database.reading() as session:
            return stored_records.training_records(session, target, compiler, limit, emulated)

    def mark_verified(self, record_id: int) -> None:
        """The record's output was compared on the board and agreed: it may be served. A record
        that was marked failed meanwhile stays so."""
        with self._database.writing() as session:
            stored_records.mark_verified(session, record_id)

    def mark_failed(self, record_id: int, error: ErrorClass, text: str) -> None:
        """The record turned out wrong (wrong-output, implausible, crash when run again): it is a
        failure from now on, and what is served is chosen anew."""
        with self._database.writing() as session:
            stored_records.mark_failed(session, record_id, error, text)

    def unverified_best(self, key: ScheduleKey, *, emulated: bool | None = None) -> list[Record]:
        """Successful, unverified records faster than what is served of their kind of board (real
        or emulated), fastest first; of one kind only, where given."""
        with self._database.reading() as session:
            return stored_records.unverified_best(session, key, emulated)

    def adopt_record(self, record_id: int, key: ScheduleKey, origin: str) -> int:
        """Stores a record of the same workload for another target too, with its times and an origin
        in one line, unverified; gives the new record's id, or the one that was there. Costs no
        trial. Raises DatabaseError for a record of another workload."""
        with self._database.writing() as session:
            return adopted_records.adopt_record(session, record_id, key, origin)

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
        board class (a killed run is resumed); gives its id.

        `trials` sets the budget's total to that number, never below what is granted already;
        `more` raises it to what was spent and so many more; with neither it stays. Tasks take over
        `untuned_seconds` and `exhausted` from earlier jobs on that board class; a raised budget
        tries the exhausted again. Raises BudgetError for both or a negative number.
        """
        with self._database.writing() as session:
            return jobs.submit_job(session, model_id, board_class, trials, more, emulated)

    def budget(self, job_id: int) -> Budget:
        """The budget that the job draws on, shared by all jobs of its model, shapes, target and
        compiler."""
        with self._database.reading() as session:
            return budgets.read_budget(session, job_id)

    def lower_budget(self, job_id: int, trials: int) -> None:
        """Takes back trials that the job's budget was raised by and that were not spent; those that
        are granted stay."""
        with self._database.writing() as session:
            budgets.lower_limit(session, job_id, trials)

    def task_states(self, job_id: int) -> list[TaskState]:
        """The job's tasks in the order of splitting; a workload that the model holds twice is one
        task with the sum of the weights."""
        with self._database.reading() as session:
            return task_states.task_states(session, job_id)

    def set_untuned_seconds(self, task_id: int, seconds: float) -> None:
        """What the unscheduled program took on the board; noted for the same workload in other
        open jobs on its board class too, where it is not known yet."""
        with self._database.writing() as session:
            jobs.set_untuned_seconds(session, task_id, seconds)

    def set_exhausted(self, task_id: int) -> None:
        """The search found less than half of the new candidates that it was asked for: no more
        rounds are worth while, until a budget is raised."""
        with self._database.writing() as session:
            jobs.set_exhausted(session, task_id)

    def finish_job(self, job_id: int, state: str, reason: str = "") -> None:
        """Ends the job as `state` and closes its open rounds, giving back what they had not spent.
        The state is any word but `open`; that of a submitted job one of JobState's. A job that is
        finished already stays as it is."""
        with self._database.writing() as session:
            jobs.finish_job(session, job_id, state, reason)

    def job_is_open(self, job_id: int) -> bool:
        """Whether there is such a job and nobody has finished it yet."""
        with self._database.reading() as session:
            return jobs.job_is_open(session, job_id)

    # --- rounds ------------------------------------------------------------------------------
    def propose_rounds(self, job_id: int, proposals: Sequence[RoundProposal]) -> int:
        """Makes rounds open, or changes the gain of those open and unclaimed (and the size, while
        nothing is granted). One of another job is taken over where nobody holds it or its lease is
        dead (what it was granted goes back), and else the proposal is left out. Of two submitted
        jobs that are searched for on one board class, the one with the higher gain has it, and one
        that was begun stays where it is. Gives how many of this job are open; none are once the job
        is finished."""
        with self._database.writing() as session:
            return rounds.propose_rounds(session, self._observer, job_id, proposals)

    def withdraw_rounds(self, job_id: int) -> None:
        """Closes the job's open rounds that nobody ever claimed, so that they stand in no other
        job's way. The job stays open, and whoever resumes it proposes anew."""
        with self._database.writing() as session:
            rounds.withdraw_rounds(session, job_id)

    def claim_round(
        self,
        worker: str,
        job_id: int | None = None,
        board_classes: Sequence[str] | None = None,
        task_ids: Collection[int] | None = None,
        *,
        job_ids: Collection[int] | None = None,
        searched: bool = False,
    ) -> ClaimedRound | None:
        """Claims the open round with the highest gain (of one job or these jobs, of these board
        classes, of these tasks, where given; with `searched`, of submitted jobs that are searched
        for), expiring dead leases first; reserves its trials in the same transaction, or as many as
        the budget has left. A round whose budget grants nothing is closed. None when there is
        nothing to claim: ask again after a second, since a lease is only seen to be dead by one who
        watches it."""
        jobs_wanted = job_ids if job_id is None else (job_id,)
        wanted = round_claims.WantedRounds(jobs_wanted, board_classes, task_ids, searched)
        while True:
            with self._database.writing() as session:
                claim = round_claims.claim_round(session, self._observer, worker, wanted)
            if not claim.again:
                return claim.round

    def beat(self, round_id: int, epoch: int) -> None:
        """Says that the worker lives. Raises LeaseLostError when another worker claimed the round
        meanwhile, or it was closed."""
        with self._database.writing() as session:
            rounds.beat(session, round_id, epoch)

    def store_candidates(
        self, round_id: int, epoch: int, candidates: Sequence[Candidate]
    ) -> tuple[Slot, ...]:
        """Numbers and stores what is going to be measured, and gives the new slots. A candidate
        whose module hash is already a record of this workload, target and kind of board, or
        already in a slot of the round, is left out, as is what exceeds the round's grant.
        Raises LeaseLostError."""
        with self._database.writing() as session:
            return slots.store_candidates(session, round_id, epoch, candidates)

    def store_result(
        self, round_id: int, epoch: int, slot: int, measurement: Measurement
    ) -> StoredResult:
        """Stores one trial and charges it, in one transaction. Works for a worker that lost its
        lease too: an empty slot is filled once and charged once; a filled one keeps the result
        as a repeat. Board seconds are always charged. (After the round has ended its grant is
        gone: a late trial is then charged only where the budget still has room.)"""
        with self._database.writing() as session:
            return slots.store_result(session, round_id, epoch, slot, measurement)

    def finish_round(self, round_id: int, epoch: int, seconds: float | None = None) -> None:
        """Closes the round, gives back what was granted and not charged, appends to history.
        `seconds` is what the round took: building, measuring, and its share of the search. Raises
        LeaseLostError."""
        with self._database.writing() as session:
            rounds.finish_round(session, round_id, epoch, seconds)

    def release_round(self, round_id: int, epoch: int) -> None:
        """Lets go of a round as it stands, for a successor to claim at once and go on with. Raises
        LeaseLostError."""
        with self._database.writing() as session:
            rounds.release_round(session, round_id, epoch)

    # --- boards ------------------------------------------------------------------------------
    def board_peak(self, board_class: str, target: str) -> BoardPeak | None:
        """What a board class can do at most on a canonical target; None before it was measured."""
        with self._database.reading() as session:
            return board_peaks.board_peak(session, board_class, target)

    def save_board_peak(self, board_class: str, target: str, peak: BoardPeak) -> None:
        """Stores a measured peak in place of an earlier one."""
        with self._database.writing() as session:
            board_peaks.save_board_peak(session, board_class, target, peak)
