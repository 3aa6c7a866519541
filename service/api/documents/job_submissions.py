"""What is sent to submit a job."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from tunebook.cache.queue.submissions import BudgetLimits
from tunebook.service.api.documents.budget_models import LimitsDocument
from tunebook.service.api.documents.field_types import (
    BoardClass,
    Digest,
    Name,
    RowNumber,
    TargetText,
)
from tunebook.service.given_documents import GivenDocument, at_most

EXAMPLE_DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
EXAMPLE_TARGET = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"

InputName = Annotated[
    # Shapes are stored as text that is split at whitespace of any kind.
    str,
    StringConstraints(min_length=1, max_length=200, pattern=r"^[^\s\x00-\x1f\x7f]+$"),
]
Dimensions = Annotated[
    list[Annotated[int, Field(ge=1, le=2**31 - 1)]], Field(min_length=1, max_length=16)
]
Shapes = Annotated[dict[InputName, Dimensions], Field(max_length=64), at_most(64)]


class JobSubmission(GivenDocument):
    """A model to tune for a target on boards of a class, with a budget of its own (`budget`) or a
    shared one (`budget_id`)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": EXAMPLE_DIGEST,
                    "shapes": {"input": [1, 3, 224, 224]},
                    "target": EXAMPLE_TARGET,
                    "board_class": "rpi5",
                    "budget": {"trials": 1200, "deadline": "2030-01-02T06:00:00Z"},
                }
            ]
        },
    )

    model: Digest
    shapes: Shapes = Field(
        default_factory=dict,
        description="Dimensions of inputs that the model leaves open, by name.",
    )
    target: TargetText = Field(
        description="Without `-num-cores` where all boards of the class that are there agree on it."
    )
    board_class: BoardClass = "local"
    budget: LimitsDocument | None = None
    budget_id: RowNumber | None = None
    priority: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = Field(
        1.0, description="What expected gains are multiplied by where jobs compete."
    )
    layout: Literal["NCHW", "NHWC"] | None = Field(
        None, description="How images lie in memory between 2-D convolutions; NCHW if left out."
    )
    name: Name = Field("", description="What people call it.")

    @model_validator(mode="after")
    def _one_budget(self) -> JobSubmission:
        if (self.budget is None) == (self.budget_id is None):
            raise ValueError("give either budget or budget_id")
        return self

    def budget_use(self) -> BudgetLimits | int:
        """The limits of a budget of its own, or the number of a shared one."""
        if self.budget is not None:
            return self.budget.limits()
        assert self.budget_id is not None
        return self.budget_id


def shapes_text(shapes: dict[str, list[int]]) -> str:
    """Shapes as they are stored: `a=1,3 b=2,2`, sorted by name."""
    return " ".join(f"{name}={','.join(map(str, shapes[name]))}" for name in sorted(shapes))
