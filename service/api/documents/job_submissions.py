"""What is sent to submit a job."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from tunebook.cache.queue.submissions import BudgetLimits
from tunebook.service.api.documents.budget_models import LimitsDocument
from tunebook.service.api.documents.field_types import RowNumber
from tunebook.service.given_documents import GivenDocument
from tunebook.service.given_fields import (
    EXAMPLE_DIGEST,
    EXAMPLE_TARGET,
    BoardClass,
    Digest,
    Name,
    TargetText,
)
from tunebook.service.input_shapes import Shapes


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
    target: TargetText | None = Field(
        None,
        description="What it leaves out of cores, triple and processor, the class of its boards "
        "supplies; all of it where it is left out itself. Without defaults of the class the cores "
        "are those that all of its boards have.",
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

    def chosen_budget(self) -> BudgetLimits | int:
        """The limits of a budget of its own, or the number of a shared one."""
        if self.budget is not None:
            return self.budget.limits()
        assert self.budget_id is not None
        return self.budget_id
