"""Submitted jobs and the workers that serve them: real processes, real boards, a real database."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest
from sqlalchemy import Connection, create_engine, text, update

from tunebook.cache.model_files import ModelFiles
from tunebook.cache.queue.submissions import BudgetLimits, Job, JobRequest, JobState
from tunebook.cache.records import Source
from tunebook.cache.storage.tables import BudgetRow
from tunebook.cache.store import BoardPeak, Store
from tunebook.tuner.llvm_targets import host_target
from tunebook.workers.boards.board_supervisor import BoardSupervisor
from tunebook.workers.boards.host_server import host_server
from tunebook.workers.boards.tracker import running_tracker

pytestmark = pytest.mark.slow

Eventually = Callable[..., None]
TARGET = str(host_target())
LAB = "lab"
# More than any of these tests waits for.
MANY_TRIALS = 5_000
ENDED = (JobState.DONE, JobState.FAILED, JobState.CANCELLED)


@dataclass(frozen=True)
class Place:
    """A coordinator's database and models, and processes that work on them."""

    folder: Path
    store: Store
    models: ModelFiles
    command: list[str]
    processes: list[subprocess.Popen[bytes]]
    eventually: Eventually

    @property
    def database(self) -> Path:
        return self.folder / "tunebook.db"

    def start_worker(self, *options: str, name: str = "worker") -> subprocess.Popen[bytes]:
        """A worker that is there, for the boards of these options."""
        arguments = [
            *(*self.command, "worker", "--db", str(self.database), "--name", name),
            *("--models", str(self.folder / "models"), *options),
        ]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(arguments, stdout=log, stderr=log, start_new_session=True)
        self.processes.append(process)
        self.eventually(lambda: name in self.worker_names(), f"the worker {name} is there", 120)
        return process

    def worker_names(self) -> set[str]:
        return {worker.name for worker in self.store.fleet.workers()}

    def submit(
        self, model: bytes, limits: BudgetLimits, board_class: str = "local", name: str = "a.onnx"
    ) -> int:
        digest = hashlib.sha256(model).hexdigest()
        if not self.models.exists(digest):
            with self.models.upload(digest) as upload:
                upload.write(model)
                upload.finish()
        request = JobRequest(digest, "", TARGET, board_class, name=name)
        return self.store.queue.submit(request, limits).job_id

    def job(self, job_id: int) -> Job:
        return self.store.queue.job(job_id)

    def ended(self, job_id: int) -> Job:
        """The job once it has ended."""
        self.eventually(lambda: self.job(job_id).state in ENDED, f"job {job_id} ended", 300)
        return self.job(job_id)

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        with self.connection() as connection:
            return [tuple(row) for row in connection.execute(text(query), values)]

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Another one to the database, whose changes are committed at its end."""
        engine = create_engine(f"sqlite:///{self.database}", connect_args={"timeout": 60})
        try:
            with engine.begin() as connection:
                yield connection
        finally:
            engine.dispose()

    def measured(self, job_id: int) -> int:
        """Trials of the job's open rounds that have their result."""
        query = (
            "SELECT count(slots.record_id) FROM slots JOIN rounds ON rounds.id = slots.round_id "
            "WHERE rounds.job_id = :job AND rounds.state = 'open'"
        )
        return int(self.rows(query, job=job_id)[0][0])

    def unmeasured(self, job_id: int) -> int:
        """Candidates of the job's open rounds that are being built, or wait for the board."""
        query = (
            "SELECT count(*) FROM slots JOIN rounds ON rounds.id = slots.round_id "
            "WHERE rounds.job_id = :job AND rounds.state = 'open' AND slots.record_id IS NULL"
        )
        return int(self.rows(query, job=job_id)[0][0])

    def bring_deadline(self, job_id: int, deadline: datetime) -> None:
        """Makes this the deadline of the job's budget."""
        budget = self.job(job_id).budget.id
        with self.connection() as connection:
            connection.execute(
                update(BudgetRow).where(BudgetRow.id == budget).values(deadline=deadline)
            )

    def rounds(self, job_id: int) -> int:
        """How many rounds of the job there are, open or not."""
        return int(self.rows("SELECT count(*) FROM rounds WHERE job_id = :job", job=job_id)[0][0])

    def states(self, job_id: int) -> list[str]:
        """Those that its events have told so far."""
        events = self.store.queue.events(job_id)
        return [event.data["state"] for event in events if event.kind == "state"]

    def holders(self, job_id: int) -> list[tuple[Any, ...]]:
        """The open rounds of a job that somebody holds: who, and the claim's number."""
        query = (
            "SELECT worker, epoch FROM rounds "
            "WHERE job_id = :job AND state = 'open' AND worker IS NOT NULL"
        )
        return self.rows(query, job=job_id)


@contextlib.contextmanager
def place_in(folder: Path, command: list[str], eventually: Eventually) -> Iterator[Place]:
    processes: list[subprocess.Popen[bytes]] = []
    with Store.open(str(folder / "tunebook.db")) as store:
        # Measuring what the board can do at most takes each place's first worker half a minute.
        for board_class in ("local", LAB):
            store.save_board_peak(board_class, TARGET, BoardPeak(1e15, 1e15))
        models = ModelFiles(str(folder / "models"))
        try:
            yield Place(folder, store, models, command, processes, eventually)
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(60)


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory, command: list[str], eventually: Eventually
) -> Iterator[Place]:
    """A place with one worker, which has this machine as its board."""
    with place_in(tmp_path_factory.mktemp("served"), command, eventually) as place:
        place.start_worker("--boards", "local")
        yield place


@pytest.fixture
def unserved(tmp_path: Path, command: list[str], eventually: Eventually) -> Iterator[Place]:
    """A place without workers."""
    with place_in(tmp_path, command, eventually) as place:
        yield place


@pytest.fixture(scope="module")
def model(
    onnx_models: ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[int], bytes]:
    """The file of a model of one task, another task for each batch size."""
    folder = tmp_path_factory.mktemp("models")

    def make(batch: int) -> bytes:
        made = onnx_models.scaled_convolution(batch=batch)
        saved: Path = onnx_models.save(folder / f"{batch}.onnx", made)
        return saved.read_bytes()

    return make


def test_a_job_whose_model_cannot_be_imported_fails_with_the_reason_and_a_log(
    served: Place, onnx_models: ModuleType, tmp_path: Path
) -> None:
    path = onnx_models.save(tmp_path / "model.onnx", onnx_models.with_unsupported_operators())
    job = served.ended(served.submit(path.read_bytes(), BudgetLimits(trials=8), name="night 7"))
    assert job.state is JobState.FAILED
    assert job.reason.startswith("night 7 uses operators that TVM cannot import: ")
    assert "\n" not in job.reason
    assert "Traceback" in job.log


def test_a_budget_of_one_trial_is_one_trial(served: Place, model: Callable[[int], bytes]) -> None:
    job = served.ended(served.submit(model(1), BudgetLimits(trials=1)))
    assert (job.state, job.reason) == (JobState.DONE, "trials")
    assert (job.budget.trials_spent, job.budget.trials_granted) == (1, 1)
    (task,) = served.store.task_states(job.id)
    assert task.trials == 1
    assert task.untuned_seconds is not None


def test_two_jobs_for_the_same_model_and_target_are_measured_once(
    unserved: Place, model: Callable[[int], bytes]
) -> None:
    trials = 6
    jobs = [unserved.submit(model(2), BudgetLimits(trials=trials)) for _ in range(2)]
    # Only now: it could do the first before there is a second.
    unserved.start_worker("--boards", "local")
    first, second = (unserved.ended(job) for job in jobs)
    assert [first.state, second.state] == [JobState.DONE, JobState.DONE]
    assert first.budget.id == second.budget.id
    assert first.budget.trials_spent == trials
    (mine,), (theirs,) = (unserved.store.task_states(job) for job in jobs)
    assert mine.key == theirs.key
    assert mine.trials == theirs.trials == trials
    assert mine.served_seconds is not None


def test_what_a_near_model_has_is_tried_before_any_search(
    served: Place, onnx_models: ModuleType, tmp_path: Path, model: Callable[[int], bytes]
) -> None:
    served.ended(served.submit(model(1), BudgetLimits(trials=1)))
    retrained = onnx_models.scaled_convolution(batch=1, scale=0.25)
    path = onnx_models.save(tmp_path / "retrained.onnx", retrained)
    job = served.ended(served.submit(path.read_bytes(), BudgetLimits(trials=1)))
    (task,) = served.store.task_states(job.id)
    (record,) = served.store.records(task.key)
    assert record.candidate.source is Source.MIGRATION
    assert task.served_seconds is not None


@pytest.mark.parametrize("phase", ["build", "run"])
def test_a_cancelled_job_is_left_within_its_round_and_keeps_what_was_measured(
    phase: str, served: Place, model: Callable[[int], bytes], eventually: Eventually
) -> None:
    job_id = served.submit(model({"build": 3, "run": 4}[phase]), BudgetLimits(trials=MANY_TRIALS))
    if phase == "build":
        eventually(
            lambda: served.unmeasured(job_id) > 0 and served.measured(job_id) == 0,
            "candidates are built of which none was measured",
            300,
        )
    else:
        eventually(lambda: served.measured(job_id) > 0, "candidates are measured", 300)
    served.store.queue.cancel(job_id)
    rounds = served.rounds(job_id)
    after = served.ended(served.submit(model(5), BudgetLimits(trials=1)))
    job = served.job(job_id)
    assert after.state is JobState.DONE, "the worker went on with other jobs"
    assert (job.state, job.reason) == (JobState.CANCELLED, "cancelled")
    assert job.budget.trials_granted == job.budget.trials_spent
    assert served.rounds(job_id) == rounds, "no other round was begun"
    assert served.store.task_states(job_id)[0].trials == job.budget.trials_spent


def test_a_deadline_ends_a_job_within_its_round(
    served: Place, model: Callable[[int], bytes], eventually: Eventually
) -> None:
    """It is brought forward: one that came by itself could come before the job is submitted."""
    later = datetime.now(timezone.utc) + timedelta(hours=1)
    job_id = served.submit(model(6), BudgetLimits(deadline=later))
    eventually(lambda: served.measured(job_id) > 0, "candidates are measured", 300)
    deadline = datetime.now(timezone.utc)
    served.bring_deadline(job_id, deadline)
    job = served.ended(job_id)
    assert (job.state, job.reason) == (JobState.DONE, "deadline")
    assert job.finished_at is not None
    assert job.finished_at >= deadline
    assert job.budget.trials_granted == job.budget.trials_spent
    assert served.holders(job.id) == []


def test_seconds_of_a_budget_count_while_it_is_worked_for(
    served: Place, model: Callable[[int], bytes]
) -> None:
    job = served.ended(served.submit(model(7), BudgetLimits(seconds=4)))
    assert (job.state, job.reason) == (JobState.DONE, "time")
    assert job.budget.used_seconds >= 4
    assert job.budget.trials_granted == job.budget.trials_spent


def test_a_job_for_boards_that_nobody_serves_waits_and_says_so_until_somebody_does(
    unserved: Place, model: Callable[[int], bytes], eventually: Eventually
) -> None:
    job_id = unserved.submit(model(1), BudgetLimits(trials=2), board_class=LAB)
    waiting = unserved.job(job_id)
    assert (waiting.state, waiting.waiting_for) == (JobState.WAITING, LAB)
    assert LAB in waiting.reason
    with running_tracker() as tracker:
        unserved.start_worker("--boards", f"{LAB}@{tracker}")
        eventually(lambda: unserved.job(job_id).model_id is not None, "its model was split")
        assert unserved.job(job_id).state is JobState.WAITING, "a worker without boards splits only"
        eventually(lambda: JobState.WAITING.value in unserved.states(job_id), "it says so")
        with BoardSupervisor(host_server(1), tracker, LAB):
            job = unserved.ended(job_id)
    assert (job.state, job.reason) == (JobState.DONE, "trials")
    assert unserved.states(job_id)[-1] == JobState.DONE.value


def test_a_killed_workers_round_is_anothers_and_given_back_by_one_told_to_stop(
    unserved: Place, model: Callable[[int], bytes], eventually: Eventually
) -> None:
    first = unserved.start_worker("--boards", "local", name="first")
    job_id = unserved.submit(model(1), BudgetLimits(trials=MANY_TRIALS))
    eventually(lambda: unserved.measured(job_id) > 0, "candidates are measured", 300)
    # The only task's only round is held by the first, so the second has nothing to do.
    second = unserved.start_worker("--boards", "local", name="second")
    eventually(lambda: unserved.measured(job_id) > 0, "candidates are measured", 300)
    first.kill()
    before = _records(unserved)
    eventually(
        lambda: any(worker == "second" for worker, _ in unserved.holders(job_id)),
        "the second worker has the round",
    )
    eventually(lambda: len(_records(unserved)) > len(before), "it goes on with it")
    second.send_signal(signal.SIGTERM)
    assert second.wait(60) == 0
    assert unserved.holders(job_id) == []
    assert unserved.worker_names() == set()
    eventually(lambda: not _alive_in_session(second.pid), "no process of it is left")
    after = _records(unserved)
    assert after[: len(before)] == before
    assert len({module for _, module in after}) == len(after), "nothing is measured twice"
    assert unserved.job(job_id).budget.trials_spent == len(after)


def _records(place: Place) -> list[tuple[Any, ...]]:
    return place.rows("SELECT id, module_hash FROM records ORDER BY id")


def _alive_in_session(leader: int) -> list[int]:
    found = []
    for pid in psutil.pids():
        # Others end while we look.
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(pid) == leader:
                found.append(pid)
    return found
