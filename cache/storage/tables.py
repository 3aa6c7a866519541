"""The tables, as typed models; migrations/versions/ says how a database comes to have them.

The wall clock decides when a budget's deadline is reached, when a session is over, and what is
forgotten; other moments are for people to read.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from tunebook.cache.storage.moments import Moment, now

# Without fixed names SQLite and PostgreSQL would each name constraints their own way, and a later
# migration could not say which one it changes.
NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}

OPEN = "open"
FINISHED = "finished"
CLOSED = "closed"


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)


class TargetRow(Base):
    """A canonical target. `features` is a hash of what LLVM switches on for it, empty where no
    model was split for it yet."""

    __tablename__ = "targets"
    __table_args__ = (Index("ix_targets_features", "features"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    text: Mapped[str] = mapped_column(Text, unique=True)
    features: Mapped[str] = mapped_column(String(16), default="")


class WorkloadRow(Base):
    """A workload. `dtypes`, `shapes` and `elements` restate `buffers` so that a miss finds the
    nearest workload by index, as `structure` and `anchor` do (likeness.py): see near_queries.py.
    `tir` is zlib-compressed."""

    __tablename__ = "workloads"
    __table_args__ = (
        UniqueConstraint("hash", "compiler", "op", "buffers"),
        Index("ix_workloads_same_shape", "op", "shapes", "compiler"),
        Index("ix_workloads_same_dtype", "op", "dtypes", "compiler", "elements"),
        Index("ix_workloads_structure", "structure", "compiler"),
        Index("ix_workloads_anchor", "anchor", "compiler"),
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    op: Mapped[str] = mapped_column(Text)
    buffers: Mapped[str] = mapped_column(Text)
    compiler: Mapped[str] = mapped_column(String(128))
    hash: Mapped[str] = mapped_column(String(32))
    dtypes: Mapped[str] = mapped_column(Text)
    shapes: Mapped[str] = mapped_column(Text)
    elements: Mapped[float] = mapped_column(Float)
    flops: Mapped[float] = mapped_column(Float)
    tir: Mapped[bytes] = mapped_column(LargeBinary)
    structure: Mapped[str] = mapped_column(String(16), default="")
    anchor: Mapped[str] = mapped_column(String(16), default="")
    attributes: Mapped[str] = mapped_column(Text, default="")
    constants: Mapped[str] = mapped_column(Text, default="")


class RecordRow(Base):
    """One measured trial. A scheduled module is measured once for a workload and target on real
    boards and once on emulated ones, whose figures are of another unit.

    `seconds` is the median of `run_seconds`, NULL for a failure. It is `suspect` where its board
    had drifted by then and none has measured it again. The two large columns come last: SQLite then
    reads the others without them (but `suspect`, which was added later, with them).
    """

    __tablename__ = "records"
    __table_args__ = (
        UniqueConstraint("workload_id", "target_id", "emulated", "module_hash"),
        Index("ix_records_fastest", "workload_id", "target_id", "emulated", "verified", "seconds"),
        Index("ix_records_newest", "target_id", "id"),
        # What is rare, each in an index that is small for it: lists go through these.
        Index(
            "ix_records_failed",
            "error",
            "id",
            sqlite_where=text("error IS NOT NULL"),
            postgresql_where=text("error IS NOT NULL"),
        ),
        Index(
            "ix_records_verified",
            "id",
            sqlite_where=text("verified = 1"),
            postgresql_where=text("verified"),
        ),
        Index(
            "ix_records_unsearched",
            "source",
            "id",
            sqlite_where=text("source <> 'search'"),
            postgresql_where=text("source <> 'search'"),
        ),
        Index(
            "ix_records_suspect",
            "board_class",
            "id",
            sqlite_where=text("suspect = 1"),
            postgresql_where=text("suspect"),
        ),
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    workload_id: Mapped[int] = mapped_column(ForeignKey("workloads.id"))
    target_id: Mapped[int] = mapped_column(ForeignKey("targets.id"))
    module_hash: Mapped[str] = mapped_column(String(64))
    emulated: Mapped[bool] = mapped_column(Boolean)
    verified: Mapped[bool] = mapped_column(Boolean, default=False)
    suspect: Mapped[bool] = mapped_column(Boolean, default=False)
    seconds: Mapped[float | None] = mapped_column(Float)
    error: Mapped[str | None] = mapped_column(String(32))
    error_text: Mapped[str] = mapped_column(Text, default="")
    source: Mapped[str] = mapped_column(String(32), default="search")
    board: Mapped[str] = mapped_column(Text, default="")
    board_class: Mapped[str] = mapped_column(Text, default="")
    board_seconds: Mapped[float] = mapped_column(Float, default=0.0)
    board_state: Mapped[dict[str, Any]] = mapped_column(JSON)
    run_seconds: Mapped[list[float]] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)
    feature_columns: Mapped[int] = mapped_column(Integer, default=0)
    trace: Mapped[str] = mapped_column(Text)
    features: Mapped[bytes | None] = mapped_column(LargeBinary)


class OriginRow(Base):
    """Which record another one was made from, and how, in one line; only where it was."""

    __tablename__ = "origins"

    record_id: Mapped[int] = mapped_column(ForeignKey("records.id"), primary_key=True)
    text: Mapped[str] = mapped_column(Text)


class ScheduleRow(Base):
    """The record that is served: one for real boards, one for emulated ones."""

    __tablename__ = "schedules"
    __table_args__ = (Index("ix_schedules_target", "target_id", "workload_id", "emulated"),)

    workload_id: Mapped[int] = mapped_column(ForeignKey("workloads.id"), primary_key=True)
    target_id: Mapped[int] = mapped_column(ForeignKey("targets.id"), primary_key=True)
    emulated: Mapped[bool] = mapped_column(Boolean, primary_key=True)
    record_id: Mapped[int] = mapped_column(ForeignKey("records.id"))
    seconds: Mapped[float] = mapped_column(Float)


class ModelRow(Base):
    """A model as it was split for one target by one compiler. Of those that differ in choices
    only, the one with the highest `saved` was saved last."""

    __tablename__ = "models"
    __table_args__ = (
        UniqueConstraint("digest", "shapes", "target_id", "compiler", "choices"),
        Index("ix_models_target", "target_id", "digest"),
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    shapes: Mapped[str] = mapped_column(Text)
    target_id: Mapped[int] = mapped_column(ForeignKey("targets.id"))
    compiler: Mapped[str] = mapped_column(String(128))
    choices: Mapped[str] = mapped_column(Text)
    saved: Mapped[int] = mapped_column(Integer, default=0)
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)


class ModelTaskRow(Base):
    """A workload of a model, in the order of splitting, with how often the model calls it."""

    __tablename__ = "model_tasks"
    __table_args__ = (Index("ix_model_tasks_workload", "workload_id"),)

    model_id: Mapped[int] = mapped_column(ForeignKey("models.id"), primary_key=True)
    position: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    workload_id: Mapped[int] = mapped_column(ForeignKey("workloads.id"))
    weight: Mapped[int] = mapped_column(Integer)


class BudgetRow(Base):
    """What jobs may use: trials, of which `granted` counts those in flight and those spent, and
    where limited seconds, board seconds, and the time until a deadline.

    That of local commands belongs to a model's digest, shapes, target and compiler; that of
    submitted jobs to themselves, and one with a `name` to all jobs of a night. `used_seconds` is
    how long workers worked for it, on their monotonic clocks.
    """

    __tablename__ = "budgets"
    __table_args__ = (
        UniqueConstraint("digest", "shapes", "target_id", "compiler"),
        Index("ix_budgets_name", "name"),
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    digest: Mapped[str | None] = mapped_column(String(64))
    shapes: Mapped[str | None] = mapped_column(Text)
    target_id: Mapped[int | None] = mapped_column(ForeignKey("targets.id"))
    compiler: Mapped[str | None] = mapped_column(String(128))
    name: Mapped[str] = mapped_column(Text, default="")
    trial_limit: Mapped[int] = mapped_column(Integer, default=0)
    granted: Mapped[int] = mapped_column(Integer, default=0)
    spent: Mapped[int] = mapped_column(Integer, default=0)
    board_seconds: Mapped[float] = mapped_column(Float, default=0.0)
    board_seconds_limit: Mapped[float | None] = mapped_column(Float)
    used_seconds: Mapped[float] = mapped_column(Float, default=0.0)
    seconds_limit: Mapped[float | None] = mapped_column(Float)
    deadline: Mapped[datetime | None] = mapped_column(Moment)
    created_at: Mapped[datetime | None] = mapped_column(Moment, default=now)


class JobRow(Base):
    """A wish to tune a model on boards of a class. Of those that local commands opened at most one
    is open for each; a submitted one (`submitted`) is open for itself.

    `stage` is what an open job needs next: `split`, `recover`, `search`. The first two are claimed
    by one worker, with a lease like a round's (`epoch`, `beat`, `worker`, `holder`), and
    `lost_workers` counts those that died at it. `digest`, `shapes`, `target` and `choices` say what
    a submitted job is to split; `model_id` is known when it was.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        Index(
            "uq_jobs_open",
            "model_id",
            "board_class",
            "emulated",
            unique=True,
            sqlite_where=text("state = 'open' AND NOT submitted"),
            postgresql_where=text("state = 'open' AND NOT submitted"),
        ),
        Index("ix_jobs_state", "state", "stage"),
        Index("ix_jobs_budget", "budget_id"),
        Index("ix_jobs_model", "model_id", "board_class"),
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    model_id: Mapped[int | None] = mapped_column(ForeignKey("models.id"))
    budget_id: Mapped[int] = mapped_column(ForeignKey("budgets.id"))
    board_class: Mapped[str] = mapped_column(Text)
    emulated: Mapped[bool] = mapped_column(Boolean)
    state: Mapped[str] = mapped_column(String(16), default=OPEN)
    reason: Mapped[str] = mapped_column(Text, default="")
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)
    finished_at: Mapped[datetime | None] = mapped_column(Moment)
    submitted: Mapped[bool] = mapped_column(Boolean, default=False)
    digest: Mapped[str] = mapped_column(String(64), default="")
    shapes: Mapped[str] = mapped_column(Text, default="")
    target: Mapped[str] = mapped_column(Text, default="")
    choices: Mapped[str] = mapped_column(Text, default="")
    name: Mapped[str] = mapped_column(Text, default="")
    priority: Mapped[float] = mapped_column(Float, default=1.0)
    stage: Mapped[str] = mapped_column(String(16), default="search")
    log: Mapped[str] = mapped_column(Text, default="")
    epoch: Mapped[int] = mapped_column(Integer, default=0)
    beat: Mapped[int] = mapped_column(Integer, default=0)
    worker: Mapped[str | None] = mapped_column(Text)
    holder: Mapped[str | None] = mapped_column(Text)
    lost_workers: Mapped[int] = mapped_column(Integer, default=0)


class JobEventHeadRow(Base):
    """The number of a job's last event. Its lock is the last that any transaction takes."""

    __tablename__ = "job_event_heads"

    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    last: Mapped[int] = mapped_column(Integer, default=0)


class JobEventRow(Base):
    """What happened to a job, numbered without gaps."""

    __tablename__ = "job_events"

    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    kind: Mapped[str] = mapped_column(String(16))
    data: Mapped[dict[str, Any]] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)


class IdempotencyRow(Base):
    """What a client's key made, so that a retry makes nothing twice."""

    __tablename__ = "idempotency_keys"

    owner: Mapped[str] = mapped_column(String(64), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    body_hash: Mapped[str] = mapped_column(String(64))
    resource: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)


class WorkerRow(Base):
    """A worker process and the boards that it has; alive while its `beat` moves. `boards` is a list
    of {board_class, board, emulated, cores, state}."""

    __tablename__ = "workers"

    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    host: Mapped[str] = mapped_column(Text, default="")
    holder: Mapped[str] = mapped_column(Text, default="")
    beat: Mapped[int] = mapped_column(Integer, default=0)
    boards: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    activity: Mapped[str] = mapped_column(Text, default="")
    compiler: Mapped[str] = mapped_column(String(128), default="")
    started_at: Mapped[datetime] = mapped_column(Moment, default=now)


class TokenRow(Base):
    """An access token, of which only the hash is known here."""

    __tablename__ = "tokens"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64), unique=True)
    prefix: Mapped[str] = mapped_column(String(32))
    name: Mapped[str] = mapped_column(Text)
    role: Mapped[str] = mapped_column(String(16))
    board: Mapped[str] = mapped_column(Text, default="")
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)
    revoked_at: Mapped[datetime | None] = mapped_column(Moment)


class SessionRow(Base):
    """A browser that signed in with a token; of the secret in its cookie only the hash is known."""

    __tablename__ = "sessions"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id"))
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)
    expires_at: Mapped[datetime] = mapped_column(Moment)


class LookupCountRow(Base):
    """How many keys of a target a pipeline looked up in a minute (counted from 1970), by outcome:
    `hit`, or the reason of a miss."""

    __tablename__ = "lookup_counts"
    __table_args__ = (Index("ix_lookup_counts_minute", "minute"),)

    target: Mapped[str] = mapped_column(Text, primary_key=True)
    minute: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    pipeline: Mapped[str] = mapped_column(String(64), primary_key=True)
    outcome: Mapped[str] = mapped_column(String(32), primary_key=True)
    count: Mapped[int] = mapped_column(Integer)


class MissedKeyRow(Base):
    """A key that was looked up in vain, as it was explained last, with when and how often."""

    __tablename__ = "missed_keys"
    __table_args__ = (
        UniqueConstraint("key_hash", "pipeline"),
        Index("ix_missed_keys_newest", "last_at"),
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    key_hash: Mapped[str] = mapped_column(String(64))
    pipeline: Mapped[str] = mapped_column(String(64))
    key: Mapped[str] = mapped_column(Text)
    target: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(String(32))
    nearest: Mapped[str] = mapped_column(Text, default="")
    differences: Mapped[list[Any]] = mapped_column(JSON)
    explanation: Mapped[str] = mapped_column(Text)
    mending_command: Mapped[str] = mapped_column(Text)
    count: Mapped[int] = mapped_column(Integer, default=0)
    first_at: Mapped[datetime] = mapped_column(Moment, default=now)
    last_at: Mapped[datetime] = mapped_column(Moment, default=now)


class RevisionRow(Base):
    """A number that rises with every change of what it is named after: see revisions.py."""

    __tablename__ = "revisions"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, default=0)


class SecretRow(Base):
    """A secret that the replicas of a coordinator share: see shared_secrets.py."""

    __tablename__ = "secrets"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    value: Mapped[str] = mapped_column(String(64))


class TaskRow(Base):
    """A workload in a job."""

    __tablename__ = "tasks"
    __table_args__ = (
        UniqueConstraint("job_id", "workload_id"),
        Index("ix_tasks_workload", "workload_id", "target_id"),
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id"))
    workload_id: Mapped[int] = mapped_column(ForeignKey("workloads.id"))
    target_id: Mapped[int] = mapped_column(ForeignKey("targets.id"))
    weight: Mapped[int] = mapped_column(Integer)
    untuned_seconds: Mapped[float | None] = mapped_column(Float)
    exhausted: Mapped[bool] = mapped_column(Boolean, default=False)


class RoundRow(Base):
    """A batch of trials of one task: open and free (`worker` NULL), open and claimed, then
    `finished` by its worker, or `closed`: nothing was granted to it, its job ended, or another job
    took its workload over.

    `granted` is NULL until the first claim reserves trials; a successor keeps the grant. `holder`
    names the process behind `worker` (see leases.py). When the round is finished `best_seconds` is
    the task's best, and `seconds` what the round took: building, measuring, and its share of the
    search.
    """

    __tablename__ = "rounds"
    __table_args__ = (
        Index(
            "uq_rounds_open",
            "workload_id",
            "target_id",
            unique=True,
            sqlite_where=text("state = 'open'"),
            postgresql_where=text("state = 'open'"),
        ),
        Index("ix_rounds_queue", "state", "gain"),
        Index("ix_rounds_history", "workload_id", "target_id", "emulated", "id"),
        Index("ix_rounds_job", "job_id", "state"),
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id"))
    task_id: Mapped[int] = mapped_column(ForeignKey("tasks.id"))
    workload_id: Mapped[int] = mapped_column(ForeignKey("workloads.id"))
    target_id: Mapped[int] = mapped_column(ForeignKey("targets.id"))
    emulated: Mapped[bool] = mapped_column(Boolean)
    size: Mapped[int] = mapped_column(Integer)
    gain: Mapped[float] = mapped_column(Float)
    state: Mapped[str] = mapped_column(String(16), default=OPEN)
    granted: Mapped[int | None] = mapped_column(Integer)
    epoch: Mapped[int] = mapped_column(Integer, default=0)
    beat: Mapped[int] = mapped_column(Integer, default=0)
    worker: Mapped[str | None] = mapped_column(Text)
    holder: Mapped[str | None] = mapped_column(Text)
    best_seconds: Mapped[float | None] = mapped_column(Float)
    seconds: Mapped[float | None] = mapped_column(Float)
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)
    finished_at: Mapped[datetime | None] = mapped_column(Moment)


class SlotRow(Base):
    """A candidate of a round, stored before it is measured. `charged` once it cost a trial."""

    __tablename__ = "slots"

    round_id: Mapped[int] = mapped_column(ForeignKey("rounds.id"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    module_hash: Mapped[str] = mapped_column(String(64))
    record_id: Mapped[int | None] = mapped_column(ForeignKey("records.id"))
    charged: Mapped[bool] = mapped_column(Boolean, default=False)
    trace: Mapped[str] = mapped_column(Text)
    source: Mapped[str] = mapped_column(String(32), default="search")
    origin: Mapped[str] = mapped_column(Text, default="")


class RepeatRow(Base):
    """A further measurement of something that has its record already; never charged in trials.
    `round_id` is NULL where no round measured its record: it was taken over."""

    __tablename__ = "repeats"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    record_id: Mapped[int] = mapped_column(ForeignKey("records.id"), index=True)
    round_id: Mapped[int | None] = mapped_column(ForeignKey("rounds.id"))
    seconds: Mapped[float | None] = mapped_column(Float)
    error: Mapped[str | None] = mapped_column(String(32))
    error_text: Mapped[str] = mapped_column(Text, default="")
    board: Mapped[str] = mapped_column(Text, default="")
    board_seconds: Mapped[float] = mapped_column(Float, default=0.0)
    board_state: Mapped[dict[str, Any]] = mapped_column(JSON)
    run_seconds: Mapped[list[float]] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)


class BoardPeakRow(Base):
    """The peak of a board class on a target (which says with how many cores and which features)."""

    __tablename__ = "board_peaks"

    board_class: Mapped[str] = mapped_column(Text, primary_key=True)
    target: Mapped[str] = mapped_column(Text, primary_key=True)
    flops_per_second: Mapped[float] = mapped_column(Float)
    bytes_per_second: Mapped[float] = mapped_column(Float)
    measured_at: Mapped[datetime] = mapped_column(Moment, default=now)


class BoardClassRow(Base):
    """What the targets of a board class have unless they say otherwise."""

    __tablename__ = "board_classes"

    name: Mapped[str] = mapped_column(Text, primary_key=True)
    num_cores: Mapped[int] = mapped_column(Integer)
    mtriple: Mapped[str] = mapped_column(Text)
    mcpu: Mapped[str] = mapped_column(Text, default="")


class BoardRow(Base):
    """A board: what its agent reported last, and how it measures.

    `report` is empty where no agent speaks for it. Its reference kernel takes `reference_seconds`,
    give or take `reference_spread` (a share of them); both are NULL until it was measured often
    enough. `good_record` is the newest record there was when it last measured well, and what it
    measured of older ones since then is in `restated_records`. A board with a `quarantine` (the
    reason) measures nothing but its reference.
    """

    __tablename__ = "boards"

    board_class: Mapped[str] = mapped_column(Text, primary_key=True)
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    report: Mapped[dict[str, Any]] = mapped_column(JSON)
    reported_at: Mapped[datetime | None] = mapped_column(Moment)
    reference_seconds: Mapped[float | None] = mapped_column(Float)
    reference_spread: Mapped[float | None] = mapped_column(Float)
    measured_at: Mapped[datetime | None] = mapped_column(Moment)
    good_record: Mapped[int] = mapped_column(Integer, default=0)
    quarantine: Mapped[str] = mapped_column(Text, default="")
    quarantined_at: Mapped[datetime | None] = mapped_column(Moment)


class RestatedRecordRow(Base):
    """A record whose id does not tell when its figures were measured: an imported one that was
    measured here since, or one that was measured again. Kept until its board measures well."""

    __tablename__ = "restated_records"

    record_id: Mapped[int] = mapped_column(ForeignKey("records.id"), primary_key=True)


class ReferenceRunRow(Base):
    """One measurement of a board's reference kernel; `within` the board's own spread, or not."""

    __tablename__ = "reference_runs"
    __table_args__ = (Index("ix_reference_runs_board", "board_class", "board", "id"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    board_class: Mapped[str] = mapped_column(Text)
    board: Mapped[str] = mapped_column(Text)
    seconds: Mapped[float] = mapped_column(Float)
    run_seconds: Mapped[list[float]] = mapped_column(JSON)
    within: Mapped[bool] = mapped_column(Boolean)
    board_state: Mapped[dict[str, Any]] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)
