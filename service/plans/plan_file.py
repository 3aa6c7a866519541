"""A plan from a file: a night's `nightly.toml`, or a few numbers in place of models and targets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tunebook.cache.errors import ModelError, UsageError
from tunebook.service.given_fields import BoardClass
from tunebook.service.given_targets import HOST, target_text
from tunebook.service.model_digest import file_digest
from tunebook.service.nights.night_fields import Seconds
from tunebook.service.nights.night_file import NightBudget, NightFile, read_night
from tunebook.service.plans.plan_documents import (
    MOST_JOBS,
    PlanJobSubmission,
    PlanLimits,
    PlanSubmission,
    Trials,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_Count = Annotated[int, Field(strict=True, ge=1, le=MOST_JOBS)]


class NumbersFile(BaseModel):
    """A plan in numbers: so many models (with their shapes) on so many targets, on boards of one
    class; `trials` are for each model on each target."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: _Count
    targets: _Count
    trials: Annotated[Trials, Field(strict=True)] | None = None
    seconds_per_trial: Seconds | None = None
    board_class: BoardClass = "local"
    boards: _Count | None = None
    budget: NightBudget

    @model_validator(mode="after")
    def _can_be_counted(self) -> NumbersFile:
        if self.models * self.targets > MOST_JOBS:
            raise ValueError(
                f"{self.models} models on {self.targets} targets are more than {MOST_JOBS:,} jobs"
            )
        return self

    def jobs(self) -> Iterator[PlanJobSubmission]:
        for model in range(1, self.models + 1):
            for target in range(1, self.targets + 1):
                yield PlanJobSubmission(
                    name=f"model {model}", target=f"target {target}", board_class=self.board_class
                )


def read_plan(path: Path, now: datetime) -> tuple[PlanSubmission, tuple[str, ...]]:
    """The plan of a file, and what had to be left open in it, in lines. `now` is aware.

    Raises UsageError, and BudgetError for a deadline that is over.
    """
    given = _read(path)
    if isinstance(given.get("models"), int):
        return _plan_of_numbers(path, given, now), ()
    return _plan_of_night(path, read_night(path), now)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            loaded: dict[str, Any] = tomllib.load(file)
            return loaded
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no TOML file: {error}") from None
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read ({error.strerror}); give the path of a nightly.toml, or of a "
            f"file with numbers of models and targets"
        ) from None


def _plan_of_numbers(path: Path, given: dict[str, Any], now: datetime) -> PlanSubmission:
    try:
        numbers = NumbersFile.model_validate(given)
        return PlanSubmission(
            jobs=list(numbers.jobs()),
            budget=_limits(numbers.budget, now),
            trials_per_job=numbers.trials,
            seconds_per_trial=numbers.seconds_per_trial,
            boards={} if numbers.boards is None else {numbers.board_class: numbers.boards},
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        said = str(first["msg"]).removeprefix("Value error, ")
        raise UsageError(f"{path}: {where}: {said}") from None


def _plan_of_night(
    path: Path, night: NightFile, now: datetime
) -> tuple[PlanSubmission, tuple[str, ...]]:
    digests: dict[Path, str | None] = {}
    left_open = []
    for model in night.models:
        try:
            digests[model.path] = file_digest(model.path)
        except ModelError as error:
            digests[model.path] = None
            left_open.append(f"nothing is known of the model {model.name}: {error}")
    targets = {one.target for one in night.targets}
    texts = {text: target_text(text) if text == HOST else text for text in targets}
    jobs = [
        PlanJobSubmission(
            model=digests[wanted.model.path],
            name=wanted.model.name,
            shapes={name: list(shape) for name, shape in wanted.shapes.items()},
            target=texts[wanted.target.target],
            board_class=wanted.target.board_class,
            priority=wanted.priority,
        )
        for wanted in night.jobs()
    ]
    if not jobs:
        raise UsageError(f"{path}: no model is for any of the targets")
    try:
        plan = PlanSubmission(
            jobs=jobs,
            budget=_limits(night.budget, now),
            trials_per_task=max(1, night.settings.well_enough.trials),
        )
    except ValidationError as error:
        raise UsageError(f"{path}: {error.errors(include_url=False)[0]['msg']}") from None
    return plan, tuple(left_open)


def _limits(budget: NightBudget, now: datetime) -> PlanLimits:
    return PlanLimits(
        trials=budget.trials,
        seconds=budget.time,
        board_seconds=budget.board_time,
        deadline=budget.deadline_after(now),
    )
