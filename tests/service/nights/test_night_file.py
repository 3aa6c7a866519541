"""A night's file: what may stand in it, and what is said where something is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunebook.cache.errors import BudgetError, ExitCode, TunebookError, UsageError
from tunebook.service.nights.night_file import NightBudget, NightFile, read_night

EXAMPLE = Path(__file__).parents[3] / "deploy" / "nightly.toml"
SMALLEST = """
name = "nightly"
[budget]
trials = 100
[[models]]
path = "models/a.onnx"
[[targets]]
target = "llvm -mtriple=aarch64-linux-gnu -num-cores=4"
"""

Read = Callable[[str], NightFile]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def reading(text: str) -> NightFile:
        path = tmp_path / "nightly.toml"
        path.write_text(text, encoding="utf-8")
        return read_night(path)

    return reading


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The system's time zone."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_the_smallest_file_has_a_name_a_budget_a_model_and_a_target(
    read: Read, tmp_path: Path
) -> None:
    night = read(SMALLEST)
    (job,) = night.jobs()
    assert night.name == "nightly"
    assert job.model.path == tmp_path / "models" / "a.onnx"
    assert job.model.name == "a"
    assert job.target.name == job.target.target
    assert job.target.board_class == "local"
    assert job.shapes_text == ""
    assert job.priority == 1.0


def test_a_target_may_be_left_to_the_class_of_its_boards(read: Read) -> None:
    (target,) = read(SMALLEST.rpartition("target =")[0] + "board_class = 'rpi4b'").targets
    assert (target.target, target.name, target.board_class) == (None, "rpi4b", "rpi4b")


def test_every_model_is_tuned_with_each_of_its_shapes_for_each_of_its_targets(read: Read) -> None:
    night = read(
        """
        name = "nightly"
        budget = { time = "8h" }
        [[models]]
        path = "a.onnx"
        shapes = [{ x = [1, 3, 8, 8] }, { x = [4, 3, 8, 8], b = [1], a = [2, 2] }]
        priority = 2.0
        [[models]]
        path = "b.onnx"
        targets = ["pi"]
        [[targets]]
        name = "pi"
        target = "raspberry-pi/4b-aarch64"
        board_class = "rpi4"
        priority = 3
        [[targets]]
        target = "host"
        """
    )
    told = [
        (job.model.name, job.shapes_text, job.target.name, job.priority) for job in night.jobs()
    ]
    assert told == [
        ("a", "x=1,3,8,8", "pi", 6.0),
        ("a", "x=1,3,8,8", "host", 2.0),
        ("a", "a=2,2 b=1 x=4,3,8,8", "pi", 6.0),
        ("a", "a=2,2 b=1 x=4,3,8,8", "host", 2.0),
        ("b", "", "pi", 3.0),
    ]


def test_one_table_of_shapes_is_one_set_of_them(read: Read) -> None:
    night = read(SMALLEST.replace('"models/a.onnx"', '"a.onnx"\nshapes = { x = [1, 8] }'))
    assert [job.shapes_text for job in night.jobs()] == ["x=1,8"]


def test_durations_are_told_in_seconds(read: Read) -> None:
    budget = read(SMALLEST.replace("trials = 100", 'time = "1.5h"\nboard_time = 90')).budget
    assert (budget.time, budget.board_time, budget.trials) == (5400.0, 90.0, None)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("trials = 100", "trails = 100", "budget.trails is no field of it; did you mean 'trials'?"),
        ("trials = 100", "trials = 0", "budget.trials: Input should be greater than or equal to 1"),
        ("trials = 100", "trials = 0.5", "budget.trials: Input should be a valid integer"),
        ("trials = 100", "trials = 1000000000", "budget.trials: Input should be less than"),
        ("trials = 100", 'time = "soon"', "budget.time: 'soon' is no duration"),
        ("trials = 100", 'time = "-3h"', "budget.time: '-3h' is no duration"),
        ("trials = 100", "time = true", "budget.time: a duration is a text such as"),
        ("trials = 100", 'deadline = "24:30"', "budget.deadline: a deadline is a time of day"),
        ("trials = 100", "deadline = 6", "budget.deadline: a deadline is a time of day"),
        ("trials = 100", "", "budget: give at least one of trials, time, board_time and deadline"),
        ("[budget]\ntrials = 100", "budget = 100", "budget has to be a table"),
    ],
)
def test_a_wrong_budget_is_an_error_of_the_budget(
    read: Read, old: str, new: str, said: str
) -> None:
    with pytest.raises(BudgetError) as error:
        read(SMALLEST.replace(old, new))
    assert_one_line(error.value, f"nightly.toml: {said}")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "nightly"', "", "name is missing"),
        ('name = "nightly"', 'name = " "', "name: String should have at least 1 character"),
        ('name = "nightly"', 'name = "a\\nb"', "name: String should match"),
        ('name = "nightly"', "modles = 1", "name is missing; modles is no field of it"),
        ('path = "models/a.onnx"', "", "models[0].path is missing"),
        ('path = "models/a.onnx"', 'path = ""', "models[0].path: a path is a text"),
        ('a.onnx"', 'a.onnx"\nshapes = { x = [1, 0] }', "models[0].shapes[0].x[1]: "),
        ('a.onnx"', 'a.onnx"\nshapes = { x = [] }', "models[0].shapes[0].x: "),
        ('a.onnx"', 'a.onnx"\nshapes = []', "models[0].shapes: "),
        ('a.onnx"', 'a.onnx"\nlayout = "nhcw"', "models[0].layout: Input should be 'NCHW' or"),
        ('a.onnx"', 'a.onnx"\npriority = 0', "models[0].priority: Input should be greater than 0"),
        ('a.onnx"', 'a.onnx"\npriority = nan', "models[0].priority: "),
        ('a.onnx"', 'a.onnx"\ntargets = ["pi"]', "models[0].targets: no target is called 'pi'"),
        (
            'a.onnx"',
            'a.onnx"\n[[models]]\npath = "b/a.onnx"',
            "models[1].name: models[0] is called",
        ),
        ('-num-cores=4"', "-num-cores=4\"\nboard_class = 'a b'", "targets[0].board_class: "),
        ("[budget]", "[settings]\nmin_hit_rate = 100\n[budget]", "settings.min_hit_rate: "),
        (
            "[budget]",
            "[settings.well_enough]\ngains = 1\n[budget]",
            "settings.well_enough.gains is",
        ),
    ],
)
def test_what_is_wrong_is_one_line_with_the_file_and_the_field(
    read: Read, old: str, new: str, said: str
) -> None:
    assert old in SMALLEST
    with pytest.raises(UsageError) as error:
        read(SMALLEST.replace(old, new))
    assert_one_line(error.value, f"nightly.toml: {said}")


@pytest.mark.parametrize("text", ["name = ", "\ufffe", "[budget", "a = 1\na = 2"])
def test_what_is_no_toml_is_one_line(read: Read, text: str) -> None:
    with pytest.raises(UsageError) as error:
        read(text)
    assert_one_line(error.value, "nightly.toml is no TOML file: ")


@pytest.mark.parametrize("name", ["none.toml", "."])
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError) as error:
        read_night(tmp_path / name)
    assert_one_line(error.value, "give the path of a nightly.toml")


def test_many_faults_are_still_one_line(read: Read) -> None:
    with pytest.raises(UsageError) as error:
        read("\n".join(f"wrong_{n} = 1" for n in range(9)))
    assert_one_line(error.value, "; and 10 more")


def test_the_example_for_users_can_be_read() -> None:
    night = read_night(EXAMPLE)
    assert len(list(night.jobs())) > 1


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("deadline", "now", "then"),
    [
        ("06:00", "2026-11-30T22:00:00+01:00", "2026-12-01T05:00:00+00:00"),
        ("06:00", "2026-11-30T04:30:00+00:00", "2026-11-30T05:00:00+00:00"),
        ("06:00", "2026-11-30T06:00:00+01:00", "2026-12-01T05:00:00+00:00"),
        # The clocks go forward and back between the two.
        ("06:00", "2027-03-27T22:00:00+01:00", "2027-03-28T04:00:00+00:00"),
        ("06:00", "2026-10-24T22:00:00+02:00", "2026-10-25T05:00:00+00:00"),
        ("06:00+00:00", "2026-11-30T22:00:00+01:00", "2026-12-01T06:00:00+00:00"),
        ("2026-12-24T06:00", "2026-11-30T22:00:00+01:00", "2026-12-24T05:00:00+00:00"),
        ("2026-12-24T06:00Z", "2026-11-30T22:00:00+01:00", "2026-12-24T06:00:00+00:00"),
        ("2026-12-24T06:00+05:30", "2026-11-30T22:00:00+01:00", "2026-12-24T00:30:00+00:00"),
    ],
)
def test_a_deadline_is_when_it_comes_next(deadline: str, now: str, then: str) -> None:
    budget = NightBudget.model_validate({"deadline": deadline})
    assert budget.deadline_after(datetime.fromisoformat(now)) == datetime.fromisoformat(then)


@pytest.mark.parametrize("value", ["06:00:00", "2030-12-24T06:00:00Z", "2030-12-24 06:00:00"])
def test_a_deadline_may_be_a_time_as_toml_has_it(read: Read, value: str) -> None:
    text = SMALLEST.replace("trials = 100", f"deadline = {value}")
    quoted = SMALLEST.replace("trials = 100", f'deadline = "{value}"')
    assert read(text).budget == read(quoted).budget


def test_a_deadline_that_is_over_is_an_error_of_the_budget() -> None:
    budget = NightBudget.model_validate({"deadline": "2026-11-30T06:00Z"})
    with pytest.raises(BudgetError) as error:
        budget.deadline_after(datetime(2026, 11, 30, 6, 0, tzinfo=timezone.utc))
    assert_one_line(error.value, "budget.deadline: 2026-11-30T06:00:00+00:00 is over")
    assert error.value.exit_code == ExitCode.BUDGET


@given(
    now=st.datetimes(
        min_value=datetime(2000, 1, 1),
        max_value=datetime(2100, 1, 1),
        timezones=st.sampled_from([timezone.utc, ZoneInfo("Asia/Kolkata")]),
    ),
    at=st.times(),
    offset=st.integers(-12, 14),
)
def test_a_time_of_day_comes_within_a_day(now: datetime, at: object, offset: int) -> None:
    deadline = f"{at}+{offset:02}:00" if offset >= 0 else f"{at}-{-offset:02}:00"
    budget = NightBudget.model_validate({"deadline": deadline})
    then = budget.deadline_after(now)
    assert then is not None
    assert timedelta(0) < then - now <= timedelta(days=1)


def assert_one_line(error: TunebookError, said: str) -> None:
    text = str(error)
    assert said in text
    assert "\n" not in text
