"""What a committed transaction means for other processes, and how it is written down for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# A message that says more is none of ours.
_MOST_EVENTS = 100_000


@dataclass(frozen=True)
class News:
    """What was committed: `work` that idle workers may claim, and by job the number of its newest
    event. It only says that there is something: what, the database says."""

    work: bool = False
    events: Mapping[int, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.work or bool(self.events)

    def and_also(self, other: News) -> News:
        """Both in one: of a job's events the newest."""
        events = dict(self.events)
        for job_id, number in other.events.items():
            events[job_id] = max(number, events.get(job_id, 0))
        return News(self.work or other.work, events)


@dataclass(frozen=True)
class Message:
    """News as they are sent; `origin` is the process that they come from."""

    origin: str
    news: News

    def text(self) -> str:
        """How it is sent."""
        document: dict[str, Any] = {"from": self.origin}
        if self.news.work:
            document["work"] = True
        if self.news.events:
            document["events"] = self.news.events
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def parse(cls, text: bytes | str) -> Message | None:
        """A message as it arrived; None for anything else, whoever sent it."""
        try:
            document = json.loads(text)
            events = document.get("events", {})
            if len(events) > _MOST_EVENTS:
                return None
            numbers = {int(job_id): int(number) for job_id, number in events.items()}
            return cls(str(document["from"]), News(document.get("work") is True, numbers))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return None
