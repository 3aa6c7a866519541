"""Documents that somebody sends, read without more work than what is right in them asks for.

Every field that is wrong is an error of its own, which takes half a kilobyte and some 20 us: a body
of a few megabytes has room for a million. So what is too much is refused before it is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

# So many fields that are not known are each named.
_NAMED_FIELDS = 20


class GivenDocument(BaseModel):
    """A document that refuses fields which it does not know."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, given: Any) -> Any:
        if isinstance(given, dict) and len(given) > len(cls.model_fields) + _NAMED_FIELDS:
            known = ", ".join(cls.model_fields)
            raise ValueError(f"it has {len(given)} fields, and may have {known}")
        return given


def at_most(most: int) -> BeforeValidator:
    """Refuses a list or an object that holds more, before anything in it is looked at."""
    return BeforeValidator(_counting(most))


def _counting(most: int) -> Callable[[Any], Any]:
    def check(given: Any) -> Any:
        if isinstance(given, dict | list) and len(given) > most:
            raise ValueError(f"it holds {len(given)}, and may hold {most}")
        return given

    return check
