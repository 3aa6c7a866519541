"""`nightly.toml`: which models are tuned for which targets in a night, and on what budget."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tunebook.cache.errors import BudgetError, UsageError
from tunebook.cache.nearest_names import did_you_mean
from tunebook.service.given_fields import MOST_TRIALS, BoardClass
from tunebook.service.input_shapes import shapes_text
from tunebook.service.nights.night_fields import (
    Deadline,
    InputShapes,
    ModelPath,
    Name,
    Priority,
    Seconds,
    ShapeSets,
    Share,
    TargetSpelling,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# More faults than these at once are no help.
_SHOWN_FAULTS = 3


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NightModel(_Table):
    """A model file. `path` is absolute once the file is read; `shapes` holds one mapping of inputs
    to dimensions for each set of shapes to tune for (one empty mapping: the model's own), and
    `targets` the names of those it is for (None: all)."""

    path: ModelPath
    name: Name = ""
    shapes: ShapeSets = ({},)
    layout: Literal["NCHW", "NHWC"] | None = None
    priority: Priority = 1.0
    targets: Annotated[tuple[str, ...], Field(min_length=1)] | None = None


class NightTarget(_Table):
    """A target as it is spelt in the file, and the class of boards that measures for it and
    supplies what the target leaves out; without a target (None) all of it."""

    target: TargetSpelling | None = None
    name: Name = ""
    board_class: BoardClass = "local"
    priority: Priority = 1.0


class NightBudget(_Table):
    """What the whole night may use, at least one of them limited; durations in seconds."""

    trials: Annotated[int, Field(strict=True, ge=1, le=MOST_TRIALS)] | None = None
    time: Seconds | None = None
    board_time: Seconds | None = None
    deadline: Deadline | None = None

    @model_validator(mode="after")
    def _is_limited(self) -> NightBudget:
        if not self.model_fields_set:
            raise ValueError("give at least one of trials, time, board_time and deadline")
        return self

    def deadline_after(self, now: datetime) -> datetime | None:
        """The deadline in UTC; of a time of day, when it comes next after `now` (aware).

        Raises BudgetError where it is over already.
        """
        if self.deadline is None:
            return None
        if isinstance(self.deadline, datetime):
            if self.deadline.astimezone(timezone.utc) <= now:
                raise BudgetError(
                    f"budget.deadline: {self.deadline.isoformat()} is over; give a later one"
                )
            return self.deadline.astimezone(timezone.utc)
        zone = self.deadline.tzinfo
        # Naive where the file names no zone: the offset of each day is then the system's.
        today = now.astimezone(zone).date()
        days = (datetime.combine(today + timedelta(days=n), self.deadline) for n in (0, 1))
        return min(day for one in days if (day := one.astimezone(timezone.utc)) > now)


class WellEnough(_Table):
    """When a model needs no more tuning on a target: all its schedules hit, and its tasks had
    `trials` on average, or all that is left to win is expected to be below `gain`, a share of its
    latency."""

    trials: Annotated[int, Field(ge=1, le=MOST_TRIALS)] = 256
    gain: Share = 0.02


class NightSettings(_Table):
    """`min_hit_rate` is asked of every target at the end of the night; None asks for nothing.
    `wait_for_boards`, in seconds, is how long a night waits when boards that nobody has are all
    that its last jobs wait for."""

    min_hit_rate: Share | None = None
    wait_for_boards: Seconds = 1800.0
    well_enough: WellEnough = WellEnough()


class NightFile(_Table):
    """A night: every model for each of its targets, on one budget. `name` tells it from the nights
    of others at the same coordinator."""

    name: Name
    budget: NightBudget
    settings: NightSettings = NightSettings()
    models: Annotated[tuple[NightModel, ...], Field(min_length=1)]
    targets: Annotated[tuple[NightTarget, ...], Field(min_length=1)]

    def jobs(self) -> Iterator[WantedJob]:
        """Every model with each of its shapes on each of its targets, in the file's order."""
        for model in self.models:
            for shapes in model.shapes:
                for target in self.targets:
                    if model.targets is None or target.name in model.targets:
                        yield WantedJob(model, shapes, target)


@dataclass(frozen=True)
class WantedJob:
    """A model with one set of input shapes, wanted on one target."""

    model: NightModel
    shapes: InputShapes
    target: NightTarget

    @property
    def priority(self) -> float:
        """How much a share of this model's latency counts on this target."""
        return self.model.priority * self.target.priority

    @property
    def shapes_text(self) -> str:
        """The shapes as canonical text, empty for the model's own."""
        return shapes_text(self.shapes)


def read_night(path: Path) -> NightFile:
    """Reads and checks a night's file, its names filled in and its paths made absolute.

    Raises UsageError, BudgetError where it is the budget, in one line that names file and field.
    """
    try:
        with path.open("rb") as file:
            given = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no TOML file: {error}") from None
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read ({error.strerror}); give the path of a nightly.toml"
        ) from None
    try:
        night = NightFile.model_validate(given)
    except ValidationError as error:
        raise _refusal(path, error) from None
    night = _named(night, path)
    _require_known(night, path)
    return night


def _named(night: NightFile, path: Path) -> NightFile:
    folder = path.parent.resolve()
    models = tuple(
        one.model_copy(update={"path": folder / one.path, "name": one.name or one.path.stem})
        for one in night.models
    )
    targets = tuple(
        one.model_copy(update={"name": one.name or one.target or one.board_class})
        for one in night.targets
    )
    return night.model_copy(update={"models": models, "targets": targets})


def _require_known(night: NightFile, path: Path) -> None:
    """Each name stands for one thing, and names that are used are given."""
    _require_once(path, "models", [one.name for one in night.models])
    _require_once(path, "targets", [one.name for one in night.targets])
    known = [one.name for one in night.targets]
    for number, model in enumerate(night.models):
        for name in model.targets or ():
            if name not in known:
                raise UsageError(
                    f"{path}: models[{number}].targets: no target is called {name!r}"
                    f"{did_you_mean(name, known)}"
                )


def _require_once(path: Path, field: str, names: Sequence[str]) -> None:
    for number, name in enumerate(names):
        first = names.index(name)
        if first != number:
            raise UsageError(
                f"{path}: {field}[{number}].name: {field}[{first}] is called {name!r} too; give "
                f"each a name of its own"
            )


def _refusal(path: Path, error: ValidationError) -> UsageError | BudgetError:
    """What is wrong, each fault with its field, in one line."""
    found = error.errors(include_url=False)
    # A list whose items are refused counts as empty, which is no fault of its own.
    faults = [one for one in found if not any(_is_inside(other, one) for other in found)]
    told = [_fault(fault) for fault in faults[:_SHOWN_FAULTS]]
    more = len(faults) - len(told)
    text = f"{path}: {'; '.join(told)}" + (f"; and {more} more" if more else "")
    only_budget = all(fault["loc"][:1] == ("budget",) for fault in faults)
    return BudgetError(text) if only_budget else UsageError(text)


def _is_inside(inner: Any, outer: Any) -> bool:
    place = outer["loc"]
    return len(inner["loc"]) > len(place) and inner["loc"][: len(place)] == place


def _fault(fault: Any) -> str:
    where = _field(fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"{where} is no field of it{did_you_mean(str(fault['loc'][-1]), _FIELDS)}"
    if fault["type"] == "missing":
        return f"{where} is missing"
    if fault["type"] in ("model_type", "dict_type"):
        return f"{where} has to be a table"
    said = str(fault["msg"]).removeprefix("Value error, ")
    return f"{where}: {said}"


def _field(places: Sequence[str | int]) -> str:
    """`models[1].shapes[0].input[2]`."""
    text = ""
    for place in places:
        if isinstance(place, int):
            text += f"[{place}]"
        else:
            text += f".{place}" if text else place
    return text or "the file"


_FIELDS = sorted(
    name
    for table in (NightFile, NightModel, NightTarget, NightBudget, NightSettings, WellEnough)
    for name in table.model_fields
)
