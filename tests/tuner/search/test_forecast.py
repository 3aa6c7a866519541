"""Whether a plan fits, and what would."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunebook.tuner.search.forecast import PlannedJob, Room, forecast

_HOUR = 3600.0


def _job(model: int = 0, target: int = 0, **changes: object) -> PlannedJob:
    job = PlannedJob(
        model=f"model {model}",
        shapes="",
        target=f"target {target}",
        board_class="pi5",
        trials=1200,
        tasks=20,
        seconds_per_trial=0.3,
        board_seconds_per_trial=0.1,
    )
    return replace(job, **changes)


def _night() -> list[PlannedJob]:
    """40 shapes on 5 targets at 1,200 trials of 0.3 s."""
    return [_job(model, target) for model in range(40) for target in range(5)]


def test_forty_shapes_on_five_targets_take_twenty_hours() -> None:
    demand = forecast(_night(), Room(seconds=12 * _HOUR)).demand
    assert (demand.trials, demand.seconds) == (240_000, pytest.approx(20 * _HOUR))
    assert demand.board_seconds == pytest.approx(240_000 * 0.1)


def test_twenty_hours_do_not_fit_twelve_and_the_forecast_says_what_would() -> None:
    found = forecast(_night(), Room(seconds=12 * _HOUR))
    assert (found.fits, found.short_of) == (False, ("time",))
    remedies = found.remedies
    assert remedies is not None
    assert (remedies.trials_per_job, remedies.trials_share) == (720, pytest.approx(0.6))
    assert (remedies.models, remedies.targets) == (24, 3)
    assert remedies.boards == {"pi5": 2}
    assert (remedies.trials, remedies.seconds) == (None, pytest.approx(20 * _HOUR))


@pytest.mark.parametrize(
    "room",
    [
        Room(seconds=20 * _HOUR),
        Room(seconds=12 * _HOUR, boards={"pi5": 2}),
        Room(trials=240_000),
        Room(board_seconds=24_000),
        Room(),
    ],
    ids=["as long", "two boards", "as many trials", "as much board time", "no limit"],
)
def test_it_fits_exactly(room: Room) -> None:
    found = forecast(_night(), room)
    assert (found.fits, found.remedies) == (True, None)


def test_classes_of_boards_work_side_by_side() -> None:
    jobs = [_job(0), _job(0, 1, board_class="pi4"), _job(1, 1, board_class="pi4")]
    demand = forecast(jobs, Room(boards={"pi4": 1, "pi5": 3})).demand
    assert {one.board_class: one.seconds for one in demand.classes} == {
        "pi5": pytest.approx(120.0),
        "pi4": pytest.approx(720.0),
    }
    assert demand.seconds == pytest.approx(720.0)


def test_more_boards_help_against_no_lack_of_trials_or_board_time() -> None:
    for room in (Room(trials=1000), Room(board_seconds=10.0), Room(trials=9, seconds=1.0)):
        remedies = forecast(_night(), room).remedies
        assert remedies is not None
        assert remedies.boards is None


def test_fewer_trials_than_tasks_are_no_remedy() -> None:
    found = forecast([_job(trials=100, tasks=20)], Room(trials=19))
    assert found.remedies is not None
    assert found.remedies.trials_per_job is None
    assert found.remedies.trials == 100


def test_what_is_urgent_is_kept() -> None:
    """The large model fits only where the two small ones are left out, and it comes first."""
    jobs = [_job(0, trials=10), _job(1, trials=10), _job(2, trials=100, priority=2.0)]
    remedies = forecast(jobs, Room(trials=105)).remedies
    assert remedies is not None
    assert remedies.models == 1


def test_the_only_model_cannot_be_left_out() -> None:
    remedies = forecast([_job()], Room(trials=100)).remedies
    assert remedies is not None
    assert (remedies.models, remedies.targets) == (None, None)


@given(
    jobs=st.lists(
        st.builds(
            _job,
            st.integers(0, 3),
            st.integers(0, 3),
            trials=st.integers(1, 5000),
            tasks=st.just(1),
            seconds_per_trial=st.floats(0.01, 10),
            board_class=st.sampled_from(["pi4", "pi5"]),
        ),
        min_size=1,
        max_size=10,
    ),
    seconds=st.floats(10, 1e5),
    trials=st.integers(100, 10**5),
)
def test_each_remedy_fits(jobs: list[PlannedJob], seconds: float, trials: int) -> None:
    room = Room(trials=trials, seconds=seconds)
    remedies = forecast(jobs, room).remedies
    if remedies is None:
        return
    larger = replace(
        room, trials=max(trials, remedies.trials or 0), seconds=max(seconds, remedies.seconds or 0)
    )
    assert forecast(jobs, larger).fits
    if remedies.trials_share is not None:
        fewer = [replace(j, trials=math.floor(j.trials * remedies.trials_share)) for j in jobs]
        assert forecast(fewer, room).fits
    if remedies.boards is not None:
        assert forecast(jobs, replace(room, boards=remedies.boards)).fits
