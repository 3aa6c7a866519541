"""One bucket of requests for each client, shared by all replicas through Redis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tunebook.cache.live.live_counts import RATES
from tunebook.cache.live.redis_client import RedisClient
from tunebook.cache.live.redis_link import RedisLink

# The generic cell rate algorithm of ATM's traffic management, on Redis's own clock in
# microseconds: the key holds when what was asked for so far is paid off at the rate, and goes then.
_TAKE = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval = tonumber(ARGV[1])
local tolerance = tonumber(ARGV[2])
local paid_off = now
local stored = tonumber(redis.call('GET', KEYS[1]) or '0')
if stored and stored > now then
  paid_off = stored
end
if paid_off > now + tolerance then
  -- Nobody owes more than a burst, whatever happened to the clock or was written by others. It is
  -- stored, so that it is paid off from now on.
  paid_off = now + tolerance
  redis.call('SET', KEYS[1], string.format('%.3f', paid_off),
             'PX', math.max(1, math.ceil(tolerance / 1000)))
end
local room = math.floor((now + tolerance - paid_off) / interval + 0.001)
if room < 1 then
  return {0, math.ceil(paid_off + interval - now - tolerance)}
end
local granted = math.min(room, tonumber(ARGV[3]))
paid_off = paid_off + granted * interval
redis.call('SET', KEYS[1], string.format('%.3f', paid_off),
           'PX', math.max(1, math.ceil((paid_off - now) / 1000)))
return {granted, 0}
"""
_MICROSECONDS = 1e6


@dataclass(frozen=True)
class Grant:
    """How many requests may be made now; where none, the seconds after which one may."""

    requests: int
    wait: float


class SharedRates:
    """Buckets in Redis under a prefix; without a link, or while Redis is away, it knows nothing."""

    def __init__(self, link: RedisLink | None = None, prefix: str = "") -> None:
        self._link = link
        self._prefix = prefix
        self._script: Any = None

    @property
    def is_there(self) -> bool:
        """Whether it is worth while to ask."""
        return self._link is not None and self._link.is_up

    def take(self, client: str, per_second: float, burst: int, want: int) -> Grant | None:
        """Takes as many requests as there are for a client, `want` at most; None where Redis does
        not say. Waits for it briefly."""
        if self._link is None:
            return None
        interval = _MICROSECONDS / per_second
        arguments = (interval, interval * burst, want)

        def ask(redis: RedisClient) -> Grant:
            if self._script is None:
                self._script = redis.register_script(_TAKE)
            granted, wait = self._script(keys=[f"{self._prefix}{client}"], args=arguments)
            return Grant(int(granted), int(wait) / _MICROSECONDS)

        return self._link.call(RATES, ask)
