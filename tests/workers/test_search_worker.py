"""The worker's loop over a job's rounds: on this machine as the board, over real RPC."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tunebook.cache.errors import ModelError
from tunebook.cache.records import ErrorClass, Measurement, Model
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.llvm_targets import resolve_target
from tunebook.tuner.search.search import TaskSearch
from tunebook.tuner.splitting.prepare import prepare
from tunebook.tuner.splitting.split import split_model
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.trials import BoardAddress, VerificationResult
from tunebook.workers.boards.local_board import local_board
from tunebook.workers.commands.search_worker import RunSummary, SearchWorker
from tunebook.workers.commands.tuning import BoardRequest, BudgetRequest, plan_tuning, tune
from tunebook.workers.rounds.progress import Progress
from tunebook.workers.rounds.workbench import WorkerSettings

pytestmark = pytest.mark.slow

TRIALS = 8
# In the middle of the second round: the first has three trials.
LAST_IN_TIME = 5


@pytest.fixture(scope="module")
def target() -> Target:
    return resolve_target("host")


@pytest.fixture(scope="module")
def board(target: Target) -> Iterator[BoardAddress]:
    with local_board(target.num_cores) as address:
        yield address


@pytest.fixture
def model(onnx_models: ModuleType, target: Target, tmp_path: Path) -> Model:
    """One convolution: a single task."""
    path = onnx_models.save(tmp_path / "convolution.onnx", onnx_models.convolution())
    return split_model(prepare(read_model(path), target))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "tunebook.db")


def _ignore(progress: Progress) -> None:
    pass


def _run(
    store: Store,
    model: Model,
    target: Target,
    board: BoardAddress,
    listener: Callable[[Progress], None] = _ignore,
    seconds: float | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> tuple[int, RunSummary]:
    job = store.submit_job(store.save_model(model), board.board_class, trials=TRIALS, more=None)
    settings = WorkerSettings.for_this_machine(board_timeout=30)
    worker = SearchWorker(store, target, board, settings, listener, monotonic=monotonic)
    return job, worker.run(job, seconds)


def test_every_record_says_what_the_board_and_the_model_need_to_know(
    model: Model, target: Target, board: BoardAddress, url: str
) -> None:
    with Store.open(url) as store:
        _, run = _run(store, model, target, board)
        records = store.records(model.keys[0])
    assert (run.trials, run.ended) == (TRIALS, "budget")
    assert len(records) == TRIALS
    for record in records:
        measured = record.measurement
        assert measured.error is None, measured.error_text
        assert measured.board_class == "local"
        assert measured.board_seconds > 0
        assert measured.features
        assert measured.feature_columns == 164
        assert "load" in measured.board_state
    assert any(record.verified for record in records)


def test_times_beyond_the_boards_peak_are_judged_by_the_tasks_arithmetic(
    model: Model, target: Target, board: BoardAddress, url: str
) -> None:
    """The peak in the store is made so low that nothing can be true; a real one never is."""
    from tunebook.cache.store import BoardPeak

    with Store.open(url) as store:
        store.save_board_peak(board.board_class, str(target), BoardPeak(1e3, 1e18))
        _run(store, model, target, board)
        records = store.records(model.keys[0])
        answer = store.lookup(model.keys)
    assert {record.measurement.error for record in records} == {ErrorClass.IMPLAUSIBLE}
    assert answer.hits == {}


def test_a_round_that_another_worker_took_is_left_to_it(
    model: Model, target: Target, board: BoardAddress, url: str
) -> None:
    """The thief sees the lease dead at once, since it waits for no beat."""
    taken = []

    def steal(progress: Progress) -> None:
        if taken or progress.trials < 2:
            return
        with Store.open(url, lease_seconds=0.0) as thief:
            thief.claim_round("thief")
            claimed = thief.claim_round("thief")
            if claimed is not None:
                taken.append(claimed)
                thief.finish_round(claimed.id, claimed.epoch)

    with Store.open(url) as store:
        job, run = _run(store, model, target, board, steal)
        budget = store.budget(job)
        records = store.records(model.keys[0])
    assert run.ended == "budget"
    assert budget.spent == budget.granted == TRIALS
    assert len({record.candidate.module_hash for record in records}) == len(records)


def test_once_the_time_is_over_only_the_trial_in_flight_is_stored(
    model: Model, target: Target, board: BoardAddress, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker's clock stands still until a trial takes an hour: no test can wait for one."""
    now = [1000.0]
    measured = []
    measure = Measurer.measure

    def slowly(self: Measurer, *arguments: Any, **best: Any) -> Measurement:
        # Only trials are told the best time so far.
        if best:
            measured.append(arguments)
            now[0] += 3600.0 if len(measured) == LAST_IN_TIME else 0.0
        return measure(self, *arguments, **best)

    monkeypatch.setattr(Measurer, "measure", slowly)
    with Store.open(url) as store:
        job, run = _run(store, model, target, board, seconds=60.0, monotonic=lambda: now[0])
        budget = store.budget(job)
        records = store.records(model.keys[0])
    assert (run.trials, run.ended, run.seconds) == (LAST_IN_TIME, "time", 3600.0)
    assert len(measured) == len(records) == LAST_IN_TIME
    assert (budget.spent, budget.granted) == (LAST_IN_TIME, LAST_IN_TIME)
    assert any(record.verified for record in records)


def test_a_search_that_fails_costs_its_task_and_not_the_run(
    model: Model, target: Target, board: BoardAddress, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault is faked: no program is known on which TVM's search raises."""

    def fail(self: TaskSearch, *arguments: Any) -> list[Any]:
        raise RuntimeError("InternalError: no such block")

    monkeypatch.setattr(TaskSearch, "propose", fail)
    with Store.open(url) as store:
        job, run = _run(store, model, target, board)
        (task,) = store.task_states(job)
    assert run.ended == "exhausted"
    assert task.exhausted


def test_a_schedule_that_computes_something_else_is_a_failure_and_the_next_is_served(
    model: Model, target: Target, board: BoardAddress, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first comparison is faked; tests/tuner/trials does it with another program's library."""
    verify = Measurer.verify
    verdicts = [VerificationResult(False, "75 % differ", ErrorClass.WRONG_OUTPUT, "board-2")]

    def first_differs(self: Measurer, *arguments: Any) -> VerificationResult:
        return verdicts.pop() if verdicts else verify(self, *arguments)

    monkeypatch.setattr(Measurer, "verify", first_differs)
    with Store.open(url) as store:
        _run(store, model, target, board)
        records = store.records(model.keys[0])
        served = store.lookup(model.keys).hits[model.keys[0]]
    wrong = [r for r in records if r.measurement.error is ErrorClass.WRONG_OUTPUT]
    # Which board measured it stays known, and which one verified it.
    assert [(record.measurement.board, record.measurement.error_text) for record in wrong] == [
        (socket.gethostname(), "75 % differ (verified on the board board-2)")
    ]
    assert served.record_id not in {record.id for record in wrong}


def test_a_board_lost_while_verifying_leaves_the_record_for_the_next_run(
    model: Model, target: Target, board: BoardAddress, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss is faked: a board cannot be made to die between measuring and verifying."""
    verify = Measurer.verify

    def lost(self: Measurer, *arguments: Any) -> VerificationResult:
        return VerificationResult(False, "the board is gone", ErrorClass.BOARD_LOST)

    monkeypatch.setattr(Measurer, "verify", lost)
    with Store.open(url) as store:
        _run(store, model, target, board)
        assert [miss.reason.value for miss in store.lookup(model.keys).misses] == ["unverified"]
        monkeypatch.setattr(Measurer, "verify", verify)
        _, again = _run(store, model, target, board)
        assert again.trials == 0
        assert store.lookup(model.keys).misses == ()


def test_a_trial_that_is_stopped_half_way_is_nobodys_failure(
    model: Model, target: Target, board: BoardAddress, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C is faked as the worker sees it: its stop is set, and the measurement ends as lost."""
    measure = Measurer.measure
    (key,) = model.keys
    with Store.open(url) as store:
        job = store.submit_job(store.save_model(model), "local", trials=TRIALS, more=None)
        settings = WorkerSettings.for_this_machine(board_timeout=30)
        worker = SearchWorker(store, target, board, settings, _ignore)

        begun = []

        def stopped_in_the_second_trial(
            self: Measurer, library: Any, *rest: Any, **options: Any
        ) -> Any:
            # Only trials are told the best time so far.
            begun.extend(options)
            if len(begun) < 2:
                return measure(self, library, *rest, **options)
            worker._stop.set()
            return Measurement(error=ErrorClass.BOARD_LOST, error_text="the process was killed")

        monkeypatch.setattr(Measurer, "measure", stopped_in_the_second_trial)
        worker.run(job)
        records = store.records(key)
    assert [record.measurement.error for record in records] == [None]


def test_two_models_that_share_a_layer_do_not_wait_for_each_others_rounds(
    onnx_models: ModuleType, target: Target, tmp_path: Path, url: str
) -> None:
    """The first run is over before its rounds are; the second model's must not wait for them."""
    first = onnx_models.save(tmp_path / "first.onnx", onnx_models.convolution())
    second = onnx_models.save(tmp_path / "second.onnx", onnx_models.convolution_after_others())
    with Store.open(url) as store:
        for path, seconds in ((first, 0.001), (second, None)):
            plan = plan_tuning(
                path,
                target,
                shapes={},
                budget=BudgetRequest(trials=TRIALS, seconds=seconds),
                board=BoardRequest(),
            )
            report = tune(plan, store, _ignore)
    assert report.run.trials == TRIALS
    assert all(task.served_seconds is not None for task in report.tasks)


def test_a_pickled_model_is_read_for_those_who_trust_it_alone(
    target: Target, tmp_path: Path
) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(b"a zip file with a pickle in it")
    with pytest.raises(ModelError, match="runs code when it is read"):
        plan_tuning(path, target, shapes={}, budget=BudgetRequest(trials=9), board=BoardRequest())
