"""A plan as it is asked for and as it is answered, over HTTP and on the command line alike."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
)

from tunebook.cache.queue.submissions import BudgetLimits
from tunebook.service.given_documents import GivenDocument, at_most
from tunebook.service.given_fields import (
    EXAMPLE_TARGET,
    MOST_TRIALS,
    BoardClass,
    Digest,
    Name,
    TargetText,
)
from tunebook.service.input_shapes import Shapes, shapes_text

MOST_JOBS = 2_000

Trials = Annotated[int, Field(ge=1, le=MOST_TRIALS)]
# Not below what a clock tells: what is divided by them stays a number.
Seconds = Annotated[float, Field(ge=1e-6, le=1e9, allow_inf_nan=False)]
Moment = Annotated[
    # As text also where it is printed.
    datetime,
    PlainSerializer(lambda moment: moment.isoformat(timespec="seconds"), return_type=str),
]


class PlanLimits(GivenDocument):
    """What there is for a plan; what is left out is not limited."""

    trials: Trials | None = None
    seconds: Seconds | None = None
    board_seconds: Seconds | None = None
    deadline: AwareDatetime | None = Field(
        default=None, description="ISO 8601 with an offset from UTC."
    )

    def limits(self) -> BudgetLimits:
        return BudgetLimits(self.trials, self.seconds, self.board_seconds, self.deadline)


class PlanJobSubmission(GivenDocument):
    """A model with its shapes on a target; without `model`, one that nothing is known of."""

    model: Digest | None = None
    name: Name = Field("", description="What people call the model.")
    shapes: Shapes = Field(default_factory=dict)
    target: TargetText | None = Field(
        None,
        description="A target in any spelling but `host`. The class of its boards supplies what is "
        "left out, or all; without a model any name.",
    )
    board_class: BoardClass = "local"
    priority: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = 1.0

    @property
    def label(self) -> str:
        return self.name or (self.model or "a model")[:12]

    @property
    def shapes_text(self) -> str:
        """The shapes as they are stored."""
        return shapes_text(self.shapes)


class PlanSubmission(GivenDocument):
    """What is to be tuned on which budget.

    A job wants `trials_per_job`, or else its share of the budget's trials, or else
    `trials_per_task` for each of its tasks; but for the share, what it had already counts.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "jobs": [{"name": "resnet", "target": EXAMPLE_TARGET, "board_class": "rpi5"}],
                    "trials_per_job": 1200,
                    "budget": {"seconds": 43200},
                }
            ]
        },
    )

    jobs: Annotated[
        list[PlanJobSubmission], Field(min_length=1, max_length=MOST_JOBS, fail_fast=True)
    ]
    budget: PlanLimits = PlanLimits()
    trials_per_job: Trials | None = None
    trials_per_task: Trials = 256
    seconds_per_trial: Seconds | None = Field(
        default=None,
        description="In place of what was measured: of one board and the search for it.",
    )
    boards: Annotated[
        dict[BoardClass, Annotated[int, Field(ge=1, le=10_000)]],
        Field(max_length=100),
        at_most(100),
    ] = Field(
        default_factory=dict, description="Boards by class, in place of those that are there now."
    )


class ClassDocument(BaseModel):
    """What a plan asks of a class of boards; `seconds` with all of them at work."""

    board_class: str
    boards: int
    jobs: int
    trials: int
    seconds: float


class DemandDocument(BaseModel):
    """What a plan takes; `seconds` are those of the class of boards that takes longest."""

    trials: int
    seconds: float
    board_seconds: float
    classes: list[ClassDocument]


class RoomDocument(BaseModel):
    """What there is for it; null where it is not limited. `seconds` ends at the deadline too."""

    trials: int | None
    seconds: float | None
    board_seconds: float | None


class RemediesDocument(BaseModel):
    """What would fit, each alone; null where that alone does not help. `trials_share` is the share
    of its trials that every job would get, and `trials_per_job` the most that one would;
    `models` and `targets` are how many would fit, `boards` how many each class would need."""

    trials_share: float | None
    trials_per_job: int | None
    models: int | None
    targets: int | None
    boards: dict[str, int] | None
    trials: int | None
    seconds: float | None
    board_seconds: float | None


class ExpectedGainDocument(BaseModel):
    """What another hour is expected to bring a model on a target: seconds of its latency now and
    then, the share that it loses, and how many of the hour's trials it gets. `job` is its place
    among the jobs that were asked about, from 0; models that were never split are left out."""

    job: int
    model: str
    shapes: str
    target: str
    latency: float
    expected_latency: float
    share: float
    trials: int


class PlanDocument(BaseModel):
    """Whether a plan fits, what would, what was assumed, and what another hour would bring."""

    fits: bool
    short_of: list[Literal["trials", "time", "board-time"]]
    jobs: int
    models: int
    targets: int
    demand: DemandDocument
    room: RoomDocument
    deadline: Moment | None
    remedies: RemediesDocument | None
    assumptions: list[str]
    another_hour: list[ExpectedGainDocument]
