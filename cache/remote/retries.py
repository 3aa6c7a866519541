"""Which failed requests are made again, and how long to wait before."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

# The request was not acted upon, or by a server that is going away.
BUSY = 429
GOING_AWAY = (502, 503, 504)


@dataclass(frozen=True)
class Retries:
    """How often and how patiently a request is made again.

    Waits are drawn at random between nothing and a limit that doubles: clients that a server lost
    at once do not come back at once. `longest_wait` is the most that a server may ask for.
    """

    attempts: int = 5
    first_limit: float = 0.25
    last_limit: float = 4.0
    longest_wait: float = 60.0
    sleep: Callable[[float], None] = time.sleep
    draw: Callable[[float, float], float] = random.uniform
    now: Callable[[], float] = time.time

    def pause(self, attempt: int) -> float:
        """Seconds to wait after the attempt with this number, counted from 0."""
        limit: float = min(self.last_limit, self.first_limit * 2**attempt)
        return self.draw(0.0, limit)

    def asked_pause(self, header: str | None) -> float | None:
        """What `Retry-After` asks for, in seconds: a number or a date; None for neither."""
        if header is None:
            return None
        text = header.strip()
        if text.isascii() and text.isdigit() and len(text) < 10:
            return float(text)
        try:
            moment = parsedate_to_datetime(text)
        except (ValueError, TypeError):
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        return max(0.0, (moment - datetime.fromtimestamp(self.now(), timezone.utc)).total_seconds())
