"""What was done over Redis and what without it, counted for whoever watches."""

from __future__ import annotations

import threading
from collections import Counter

# What Redis is used for, in failures.
CONNECT = "connect"
TELL = "tell"
RATES = "rates"
ANSWERS = "answers"
# Rings of the doorbell: those of this process that others were told of, those that they were not,
# and those of others that were heard here.
SENT = "sent"
LOST = "lost"
HEARD = "heard"
# Whether another replica had put the answer there that this one asked for.
FOUND = "found"
MISSING = "missing"
# Where news of events, and decisions about rates, come from.
FROM_REDIS = "redis"
FROM_PROCESS = "process"
FROM_DATABASE = "database"


class LiveCounts:
    """Counters that only rise; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: Counter[str] = Counter()
        self._rings: Counter[str] = Counter()
        self._news: Counter[str] = Counter()
        self._decisions: Counter[tuple[str, str]] = Counter()
        self._answers: Counter[str] = Counter()

    def failed(self, use: str) -> None:
        """Redis failed in what it is used for."""
        with self._lock:
            self._failures[use] += 1

    def rang(self, way: str) -> None:
        """The doorbell rang: `sent`, `lost` or `heard`."""
        with self._lock:
            self._rings[way] += 1

    def heard_of_events(self, source: str) -> None:
        """Somebody who follows a job heard of new events, from a source."""
        with self._lock:
            self._news[source] += 1

    def decided(self, source: str, outcome: str) -> None:
        """A request was `allowed` or `refused` by its rate, by what a source knows of it."""
        with self._lock:
            self._decisions[source, outcome] += 1

    def asked_for_answer(self, outcome: str) -> None:
        """Redis was asked for an answer of another replica: `found`, or `missing`."""
        with self._lock:
            self._answers[outcome] += 1

    @property
    def answers(self) -> dict[str, int]:
        """By outcome."""
        with self._lock:
            return dict(self._answers)

    @property
    def failures(self) -> dict[str, int]:
        """By use."""
        with self._lock:
            return dict(self._failures)

    @property
    def rings(self) -> dict[str, int]:
        """By way."""
        with self._lock:
            return dict(self._rings)

    @property
    def news(self) -> dict[str, int]:
        """By source."""
        with self._lock:
            return dict(self._news)

    @property
    def decisions(self) -> dict[tuple[str, str], int]:
        """By source and outcome."""
        with self._lock:
            return dict(self._decisions)
