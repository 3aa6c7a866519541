"""A night at a coordinator: what is submitted, skipped, waited for, and said in the end."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from hashlib import sha256

import pytest
from cache_samples import run_sql
from real_nights import TARGET, Nights, View
from stand_in_worker import SLOWEST, TRIALS, UNTUNED, StandInWorker, workload_of

from tunebook.cache.access.tokens import Role
from tunebook.cache.boards.board_reports import ClassDefaults
from tunebook.cache.errors import BudgetError, ExitCode, ServerError, UsageError
from tunebook.cache.queue.submissions import JobState
from tunebook.cache.records import ErrorClass
from tunebook.cache.store import Store
from tunebook.service.nights.night_progress import NightProgress
from tunebook.service.nights.summary import NightSummary, exit_code


def outcomes(summary: NightSummary) -> dict[str, str]:
    return {job.model: job.outcome for job in summary.jobs}


def test_every_model_is_tuned_on_one_budget(nights: Nights, store: Store) -> None:
    digests = [nights.model("a"), nights.model("b")]
    with StandInWorker(store):
        summary = nights.run(nights.file("a", "b"))
    (budget,) = store.queue.budgets()
    assert budget.name == "test of 2026-11-30"
    assert budget.trials_spent == 2 * TRIALS
    jobs = store.queue.jobs()
    assert sorted(job.request.digest for job in jobs) == sorted(digests)
    assert {job.budget.id for job in jobs} == {budget.id}
    assert outcomes(summary) == {"a": "done", "b": "done"}
    assert exit_code(summary) == ExitCode.OK


def test_the_summary_says_what_was_before_and_after(nights: Nights, store: Store) -> None:
    nights.model("a")
    file = nights.file("a", settings="well_enough = { trials = 100, gain = 0 }")
    with StandInWorker(store):
        first, second = nights.run(file), nights.run(file, name="another night")
    (target,) = first.targets
    assert (target.before, target.new_models) == (None, 1)
    assert target.after is not None
    assert (target.after.hits, target.after.wanted) == (1, 1)
    (job,) = first.jobs
    best = SLOWEST / TRIALS
    assert (job.trials, job.before_seconds) == (TRIALS, None)
    assert job.untuned_seconds == pytest.approx(2 * UNTUNED)
    assert job.after_seconds == pytest.approx(2 * best)
    (job,) = second.jobs
    assert job.before_seconds == pytest.approx(2 * best)
    assert job.after_seconds == pytest.approx(best)
    assert (job.trials, second.targets[0].new_models) == (TRIALS, 0)
    assert second.regressions == []


def test_the_same_command_goes_on_with_the_same_night(nights: Nights, store: Store) -> None:
    nights.model("a")
    file = nights.file("a")
    view = View(on_show=_stop)
    with pytest.raises(KeyboardInterrupt):
        nights.run(file, view)
    with StandInWorker(store):
        again, over = nights.run(file), nights.run(file)
    assert len(store.queue.jobs()) == 1
    assert len(store.queue.budgets()) == 1
    assert (again.resumed, again.before_is_late) == (True, False)
    assert outcomes(over) == {"a": "done"}
    assert over.budget.trials == TRIALS
    assert over.targets == again.targets


def _stop(progress: NightProgress) -> None:
    assert progress.jobs
    raise KeyboardInterrupt


def test_a_night_whose_beginning_nobody_remembers_says_so(nights: Nights, store: Store) -> None:
    nights.model("a")
    file = nights.file("a")
    with StandInWorker(store):
        nights.run(file)
        shutil.rmtree(nights.folder / "state")
        summary = nights.run(file)
    assert summary.before_is_late
    assert summary.targets[0].before is not None


def test_models_are_sent_once(nights: Nights, store: Store) -> None:
    digest = nights.model("a")
    with StandInWorker(store):
        nights.run(nights.file("a"))
        stored = [path for path in (nights.folder / "models").rglob("*") if path.is_file()]
        written = {path: path.stat().st_mtime_ns for path in stored}
        nights.run(nights.file("a"), name="another night")
    assert [sha256(path.read_bytes()).hexdigest() for path in stored] == [digest]
    assert {path: path.stat().st_mtime_ns for path in stored} == written


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (f"well_enough = {{ trials = {TRIALS}, gain = 0 }}", f"had {TRIALS} trials each"),
        ("well_enough = { trials = 1000, gain = 1 }", "another hour is expected to win"),
    ],
)
def test_what_is_tuned_well_enough_is_skipped(
    nights: Nights, store: Store, settings: str, said: str
) -> None:
    nights.model("a")
    with StandInWorker(store):
        nights.run(nights.file("a"))
        summary = nights.run(nights.file("a", settings=settings), name="another night")
    assert outcomes(summary) == {"a": "skipped"}
    assert said in summary.jobs[0].reason
    assert summary.jobs[0].after == summary.jobs[0].before is not None
    assert len(store.queue.jobs()) == 1
    assert exit_code(summary) == ExitCode.OK


def test_what_misses_is_tuned_however_many_trials_it_had(nights: Nights, store: Store) -> None:
    digest = nights.model("a")
    settings = "min_hit_rate = 1\nwell_enough = { trials = 1, gain = 1 }"
    file = nights.file("a", settings=settings)
    with StandInWorker(store, misses=frozenset({digest})):
        first, second = nights.run(file), nights.run(file, name="another night")
    assert outcomes(first) == outcomes(second) == {"a": "done"}
    assert len(store.queue.jobs()) == 2
    assert exit_code(second) == ExitCode.MISS


def test_what_cannot_be_tuned_is_told_and_the_others_are_tuned(
    nights: Nights, store: Store
) -> None:
    nights.model("a")
    digest = nights.model("broken")
    (nights.folder / "empty.onnx").write_bytes(b"")
    log = "one line\nand the last"
    with StandInWorker(store, fails={digest: log}):
        summary = nights.run(nights.file("gone", "broken", "empty", "a"))
    told = {job.model: job for job in summary.jobs}
    assert outcomes(summary) == {
        "gone": "failed",
        "broken": "failed",
        "empty": "failed",
        "a": "done",
    }
    assert "gone.onnx cannot be read" in told["gone"].reason
    assert "0 bytes" in told["empty"].reason
    assert (told["broken"].reason, told["broken"].log) == ("it is no ONNX model", log)
    assert exit_code(summary) == ExitCode.FAILURE


def test_what_a_coordinator_refuses_is_a_failure_of_that_job(nights: Nights, store: Store) -> None:
    """A model of the same digest that it has already is not looked at again: this one is."""
    nights.model("a")
    (nights.folder / "pickled.pt2").write_bytes(b"PK\x03\x04 and so on")
    with StandInWorker(store):
        summary = nights.run(nights.file("a", "path = 'pickled.pt2'"))
    assert outcomes(summary)["a"] == "done"
    assert outcomes(summary)["pickled"] == "failed"


def test_a_schedule_that_is_withdrawn_meanwhile_is_a_regression(
    nights: Nights, store: Store
) -> None:
    digest = nights.model("a")
    key = workload_of(digest).key.on(TARGET)

    def withdraw(_: NightProgress) -> None:
        fastest = store.lookup([key]).hits[key].record_id
        store.mark_failed(fastest, ErrorClass.WRONG_OUTPUT, "it computes something else")

    with StandInWorker(store):
        nights.run(nights.file("a"))
    with StandInWorker(store, finds_nothing=True):
        file = nights.file("a", settings="well_enough = { gain = 0 }")
        summary = nights.run(file, View(on_show=_once(withdraw)), name="another night")
    (worse,) = summary.regressions
    assert (worse.model, worse.target, worse.measure) == ("a", "pi", "latency")
    assert worse.before == pytest.approx(2 * SLOWEST / TRIALS)
    assert worse.after == pytest.approx(2 * SLOWEST / (TRIALS - 1))


def _once(act: Callable[[NightProgress], None]) -> Callable[[NightProgress], None]:
    acts = [act]

    def on_show(progress: NightProgress) -> None:
        if acts:
            acts.pop()(progress)

    return on_show


def test_a_hit_rate_that_fell_is_a_regression(nights: Nights, store: Store) -> None:
    digest = nights.model("a")
    key = workload_of(digest).key.on(TARGET)

    def withdraw(_: NightProgress) -> None:
        for record in store.records(key):
            store.mark_failed(record.id, ErrorClass.WRONG_OUTPUT, "it computes something else")

    with StandInWorker(store):
        nights.run(nights.file("a"))
    with StandInWorker(store, finds_nothing=True):
        file = nights.file("a", settings="well_enough = { gain = 0 }")
        summary = nights.run(file, View(on_show=_once(withdraw)), name="another night")
    (worse,) = summary.regressions
    assert (worse.measure, worse.before, worse.after) == ("hit-rate", 1.0, 0.0)


def test_boards_that_nobody_has_are_waited_for_and_then_given_up(
    nights: Nights, store: Store
) -> None:
    nights.model("a")
    summary = nights.run(nights.file("a", settings="wait_for_boards = 0.2"))
    (job,) = summary.jobs
    assert job.outcome == "failed"
    assert "rpi4" in job.reason
    assert "waited 0:00" in job.reason
    (there,) = store.queue.jobs()
    assert there.state is JobState.CANCELLED


def test_a_job_that_waits_starts_when_its_boards_appear(nights: Nights, store: Store) -> None:
    nights.model("a")
    worker = StandInWorker(store)
    view = View(on_show=_once(lambda _: worker.__enter__()))
    try:
        summary = nights.run(nights.file("a"), view)
    finally:
        worker.__exit__(None, None, None)
    assert [job.state for _, job in view.shown[0].jobs] == ["waiting"]
    assert outcomes(summary) == {"a": "done"}


def test_jobs_that_somebody_cancels_are_no_failures(nights: Nights, store: Store) -> None:
    nights.model("a")

    def cancel(progress: NightProgress) -> None:
        for _, job in progress.jobs:
            store.queue.cancel(job.id)

    summary = nights.run(nights.file("a"), View(on_show=cancel))
    assert outcomes(summary) == {"a": "cancelled"}
    assert exit_code(summary) == ExitCode.OK


@pytest.mark.parametrize("given", ["", "target = 'llvm'\n"], ids=["no target", "a part of it"])
def test_what_a_target_leaves_out_the_class_of_its_boards_supplies(
    nights: Nights, store: Store, given: str
) -> None:
    nights.model("a")
    store.boards.set_defaults("rpi4", ClassDefaults(3, "aarch64-linux-gnu", "cortex-a72"))
    with StandInWorker(store):
        summary = nights.run(nights.file("a", targets=f"{given}board_class = 'rpi4'"))
    assert summary.targets[0].target == TARGET.replace("=4", "=3")
    assert summary.targets[0].name == ("llvm" if given else "rpi4")
    assert summary.targets[0].after is not None


def test_cores_that_a_target_leaves_out_are_those_of_its_boards(
    nights: Nights, store: Store
) -> None:
    nights.model("a")
    spelling = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"
    targets = f"target = '{spelling}'\nboard_class = 'rpi4'"
    with StandInWorker(store, cores=3):
        summary = nights.run(nights.file("a", targets=targets))
    assert summary.targets[0].target == f"{spelling} -num-cores=3"
    assert summary.targets[0].name == spelling
    assert summary.targets[0].after is not None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("trials = 5", "budget.trials"),
        ("trials = 4\ntime = '1h'", "budget.time"),
        ("trials = 4\nboard_time = '1h'", "budget.board_time"),
    ],
)
def test_a_night_that_is_under_way_keeps_its_budget(
    nights: Nights, store: Store, changed: str, said: str
) -> None:
    nights.model("a")
    with StandInWorker(store):
        nights.run(nights.file("a", budget="trials = 4"))
    with pytest.raises(UsageError, match=said) as error:
        nights.run(nights.file("a", budget=changed))
    assert "--night NAME" in str(error.value)


def test_a_night_that_is_under_way_keeps_its_priorities(nights: Nights, store: Store) -> None:
    nights.model("a")
    with StandInWorker(store):
        nights.run(nights.file("a"))
        with pytest.raises(UsageError, match="with priority 1;"):
            nights.run(nights.file("path = 'a.onnx'\npriority = 2"))


def test_a_deadline_that_is_over_is_refused_before_anything_is_made(
    nights: Nights, store: Store
) -> None:
    nights.model("a")
    with pytest.raises(BudgetError, match="is over"):
        nights.run(nights.file("a", budget="deadline = 2026-11-30T21:59:00Z"))
    assert store.queue.budgets() == ()


def test_a_night_ends_at_its_deadline_whatever_is_left(nights: Nights, store: Store) -> None:
    """The deadline is moved, as nobody here waits for an hour."""
    nights.model("a")
    now = datetime.now(timezone.utc)
    over = "UPDATE budgets SET deadline = '2020-01-01 00:00:00.000000'"
    pass_it = View(on_show=_once(lambda _: run_sql(str(nights.folder / "tunebook.db"), over)))
    budget = f"trials = 1000000\ndeadline = '{(now + timedelta(hours=1)).isoformat()}'"
    file = nights.file("a", budget=budget, settings="min_hit_rate = 1")
    summary = replace(nights, now=lambda: now).run(file, pass_it)
    (job,) = summary.jobs
    assert (job.outcome, job.reason) == ("done", "deadline")
    assert summary.budget.over == "deadline"
    assert exit_code(summary) == ExitCode.MISS


def test_a_token_that_may_not_submit_is_refused(nights: Nights, store: Store) -> None:
    nights.model("a")
    reader = nights.as_another_user(store.tokens.create("reader", Role.READ).secret)
    with pytest.raises(ServerError) as error:
        reader.run(nights.file("a"))
    assert error.value.exit_code == ExitCode.SERVER
