"""Which failed requests are made again, how long to wait before, and until when."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

from tunebook.cache.errors import UsageError

PATIENCE_VARIABLE = "TUNEBOOK_PATIENCE"
# A coordinator or its database that is started again is back within this.
PATIENCE_SECONDS = 30.0

# The request was not acted upon, or by a server that is going away.
BUSY = 429
GOING_AWAY = (502, 503, 504)


@dataclass(frozen=True)
class Retries:
    """How long and how often a request is made again.

    It is made again for `patience` seconds since it was made first, and once more after the wait
    that is under way by then. Waits are drawn at random between nothing and a limit that doubles:
    clients that a server lost at once do not come back at once. `longest_wait` is the most that a
    server may ask for.
    """

    patience: float = PATIENCE_SECONDS
    first_limit: float = 0.25
    last_limit: float = 4.0
    longest_wait: float = 60.0
    sleep: Callable[[float], None] = time.sleep
    draw: Callable[[float, float], float] = random.uniform
    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Retries:
        """As TUNEBOOK_PATIENCE says: a number of seconds, 0 to make nothing again. Raises
        UsageError for what is none."""
        text = environment.get(PATIENCE_VARIABLE, "").strip()
        if not text:
            return cls()
        if not text.isascii() or not text.isdigit() or len(text) > 6:
            raise UsageError(
                f"{PATIENCE_VARIABLE} takes a number of seconds such as 30, not {text!r}"
            )
        return cls(patience=float(text))

    def pause(self, attempt: int) -> float:
        """Seconds to wait after the attempt with this number, counted from 0."""
        limit: float = min(self.last_limit, self.first_limit * 2 ** min(attempt, 16))
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


@dataclass
class Waits:
    """The waits of one request, from when it is made first."""

    retries: Retries
    made: int = 0
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.retries.monotonic()

    def wait(self, asked: float | None) -> bool:
        """Waits as long as the server asked for, or else as long as is drawn; False at once where
        the request is not to be made again."""
        retries = self.retries
        if retries.monotonic() - self._began >= retries.patience:
            return False
        if asked is not None and asked > retries.longest_wait:
            return False
        retries.sleep(retries.pause(self.made) if asked is None else asked)
        self.made += 1
        return True
