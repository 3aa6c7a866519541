"""Budgets as documents: what they may limit, and what was used of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tunebook.cache.queue.submissions import BudgetLimits, BudgetUse
from tunebook.service.api.documents.field_types import GivenMoment, Moment, Seconds
from tunebook.service.given_documents import GivenDocument
from tunebook.service.given_fields import MOST_TRIALS, Name


class LimitsDocument(GivenDocument):
    """What jobs may use: any of these limits, and at least one. Trials are exact; time is overrun
    by less than a round."""

    trials: Annotated[int, Field(ge=1, le=MOST_TRIALS)] | None = None
    seconds: Seconds | None = Field(
        None, description="Wall-clock seconds in which workers work for the budget."
    )
    board_seconds: Seconds | None = Field(
        None, description="Seconds of boards, over all boards together."
    )
    deadline: GivenMoment | None = None

    @model_validator(mode="after")
    def _limits_something(self) -> LimitsDocument:
        limits = (self.trials, self.seconds, self.board_seconds, self.deadline)
        if all(limit is None for limit in limits):
            raise ValueError("it limits nothing; give trials, seconds, board_seconds or deadline")
        return self

    def limits(self) -> BudgetLimits:
        return BudgetLimits(self.trials, self.seconds, self.board_seconds, self.deadline)


class BudgetSubmission(LimitsDocument):
    """A budget that jobs share, such as those of a night."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "night", "trials": 20000, "deadline": "2030-01-02T06:00:00Z"}]
        }
    )

    name: Annotated[Name, Field(min_length=1)]


class TrialUse(BaseModel):
    """Trials of a budget; `left` is null where they are not limited."""

    limit: int | None
    spent: int
    in_flight: int
    left: int | None


class TimeUse(BaseModel):
    """Seconds of a budget; `left` is null where they are not limited."""

    limit: float | None
    used: float
    left: float | None


class BudgetDocument(BaseModel):
    """A budget, what was used of it and what is left."""

    id: int
    name: str = Field(description="Empty for the budget of one job.")
    trials: TrialUse
    seconds: TimeUse
    board_seconds: TimeUse
    deadline: Moment | None
    over: Literal["trials", "time", "board-time", "deadline"] | None = Field(
        description="Which limit is reached; null while none is."
    )
    created_at: Moment | None

    @classmethod
    def of(cls, use: BudgetUse) -> BudgetDocument:
        limits = use.limits
        return cls.model_validate(
            {
                "id": use.id,
                "name": use.name,
                "trials": TrialUse(
                    limit=limits.trials,
                    spent=use.trials_spent,
                    in_flight=use.trials_in_flight,
                    left=use.trials_left,
                ),
                "seconds": TimeUse(
                    limit=limits.seconds, used=use.used_seconds, left=use.seconds_left
                ),
                "board_seconds": TimeUse(
                    limit=limits.board_seconds,
                    used=use.board_seconds,
                    left=use.board_seconds_left,
                ),
                "deadline": limits.deadline,
                "over": use.over,
                "created_at": use.created_at,
            }
        )
