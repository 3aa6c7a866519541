"""What a plan is made from, on both databases: rates, and what is known of a model's tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from cache_samples import A53, A76, BOARD, candidates, conv, model_of, start_job, success

from tunebook.cache.queue.planning import TasksFrom
from tunebook.cache.records import Model
from tunebook.cache.store import RoundProposal, Store


def _run_round(store: Store, job: int, *, trials: int, seconds: float | None, name: str) -> None:
    """A finished round of the job's first task, all of its trials successful."""
    task = store.task_states(job)[0]
    store.propose_rounds(job, [RoundProposal(task.id, trials, 1.0)])
    claimed = store.claim_round("worker", job)
    assert claimed is not None
    wanted = candidates(*(f"{name}-{number}" for number in range(trials)))
    for slot in store.store_candidates(claimed.id, claimed.epoch, wanted):
        measured = success(1e-3, board_seconds=0.25)
        store.store_result(claimed.id, claimed.epoch, slot.number, measured)
    store.finish_round(claimed.id, claimed.epoch, seconds)


class PlanningSuite:
    @pytest.fixture
    def store(self, url: str) -> Iterator[Store]:
        with Store.open(url) as store:
            yield store

    def test_rates_are_means_over_the_trials_of_finished_rounds(self, store: Store) -> None:
        job = start_job(store)
        _run_round(store, job, trials=2, seconds=4.0, name="slow")
        _run_round(store, job, trials=6, seconds=4.0, name="quick")
        (rate,) = store.planning.measured_rates()
        assert (rate.board_class, rate.target, rate.trials) == (BOARD, A76, 8)
        assert (rate.seconds, rate.board_seconds) == (1.0, 0.25)

    def test_a_round_whose_time_nobody_knows_tells_of_no_rate(self, store: Store) -> None:
        _run_round(store, start_job(store), trials=2, seconds=None, name="one")
        assert store.planning.measured_rates() == ()

    def test_each_target_has_a_rate_of_its_own(self, store: Store) -> None:
        for target, seconds in ((A76, 2.0), (A53, 6.0)):
            job = start_job(store, target=target)
            _run_round(store, job, trials=2, seconds=seconds, name="one")
        rates = {one.target: one.seconds for one in store.planning.measured_rates()}
        assert rates == {A76: 1.0, A53: 3.0}

    def test_the_tasks_of_a_tuned_model_come_with_where_they_stand(self, store: Store) -> None:
        model = model_of([conv(), conv(28)])
        job = start_job(store, conv(), conv(28))
        _run_round(store, job, trials=2, seconds=1.0, name="one")
        known = store.planning.known_tasks(model.digest, "", A76, BOARD)
        assert known is not None
        assert (known.count, known.known_from) == (2, TasksFrom.JOB)
        assert known.states == tuple(store.task_states(job))

    def test_a_job_on_other_boards_tells_only_how_many_tasks_there_are(self, store: Store) -> None:
        start_job(store, conv(), conv(28))
        known = store.planning.known_tasks(model_of([conv(), conv(28)]).digest, "", A76, "pi5")
        assert known is not None
        assert (known.count, known.known_from, known.states) == (2, TasksFrom.SPLIT, ())

    def test_a_model_split_for_another_target_only_is_counted_there(self, store: Store) -> None:
        model = model_of([conv(), conv(28)])
        store.save_model(model)
        known = store.planning.known_tasks(model.digest, "", A53, BOARD)
        assert known is not None
        assert (known.count, known.known_from) == (2, TasksFrom.OTHER_TARGET)

    def test_given_shapes_pick_the_model_that_was_split_with_them(self, store: Store) -> None:
        small = model_of([conv()])
        large: Model = replace(
            model_of([conv(), conv(28)]), digest=small.digest, shapes="input=1,64,99,99 other=1"
        )
        for model in (small, large):
            store.save_model(model)

        def count(shapes: str) -> int:
            known = store.planning.known_tasks(small.digest, shapes, A76, BOARD)
            assert known is not None
            assert known.known_from is TasksFrom.SPLIT
            return known.count

        assert count("input=1,64,56,56") == 1
        assert count("input=1,64,99,99") == 2

    def test_nothing_is_known_of_a_model_that_was_never_split(self, store: Store) -> None:
        assert store.planning.known_tasks("0" * 64, "", A76, BOARD) is None
        assert store.planning.tasks_per_model() is None

    def test_the_mean_number_of_tasks_is_over_all_models(self, store: Store) -> None:
        store.save_model(model_of([conv()]))
        store.save_model(model_of([conv(), conv(28), conv(14)]))
        assert store.planning.tasks_per_model() == 2.0


class TestSQLite(PlanningSuite):
    @pytest.fixture
    def url(self, sqlite_url: str) -> str:
        return sqlite_url


@pytest.mark.postgresql
class TestPostgreSQL(PlanningSuite):
    @pytest.fixture
    def url(self, postgresql_url: str) -> str:
        return postgresql_url
