"""How often each client may ask all replicas of a coordinator together."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from tunebook.cache.live.live import Live
from tunebook.cache.live.live_counts import FROM_PROCESS, FROM_REDIS
from tunebook.cache.live.shared_rates import Grant
from tunebook.service.api.brief_questions import BriefQuestions
from tunebook.service.api.guards.rates import Rate

# So much of a burst is taken at once, and of what comes back in the time that it is kept.
_BURST_SHARE = 1 / 100
_KEPT_SHARE = 1 / 10
_KEPT_SECONDS = 1.0


@dataclass
class _Taken:
    """Requests that were taken for a client and may be made until `until`; until `refused_until`
    there are none to be had."""

    requests: int = 0
    until: float = 0.0
    refused_until: float = 0.0


class SharedRate:
    """A rate that all replicas hold a client to together, through one bucket in Redis.

    Where clients may burst by hundreds some requests are taken at once and spent one by one within
    a second, so that Redis is not asked for each: a client that pauses loses at most a hundredth of
    its burst by it. What this process has let through is counted here too: that is enough to
    refuse, and to decide where Redis is away. For one event loop.
    """

    def __init__(
        self,
        name: str,
        live: Live,
        per_second: float,
        burst: int,
        clients: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._live = live
        self._per_second = per_second
        self._burst = burst
        self._clients = clients
        self._monotonic = monotonic
        self._own = Rate(per_second, burst, clients, monotonic)
        kept = min(burst * _BURST_SHARE, per_second * _KEPT_SECONDS * _KEPT_SHARE)
        self._at_once = max(1, int(kept))
        self._taken: OrderedDict[Hashable, _Taken] = OrderedDict()
        self._asking: dict[Hashable, asyncio.Event] = {}
        self._questions = BriefQuestions()

    async def wait(self, client: Hashable) -> float:
        """Counts a request, and gives 0; or, where it is one too many, gives the seconds after
        which the next may be allowed, and does not count it."""
        wait = self._own.wait(client)
        if wait:
            return self._decided(FROM_PROCESS, wait)
        while self._live.rates.is_there:
            known = self._known(client)
            if known is not None:
                return self._decided(FROM_REDIS, self._counted(client, known))
            others = self._asking.get(client)
            if others is None:
                return await self._take(client)
            await others.wait()
        return self._decided(FROM_PROCESS, 0.0)

    async def _take(self, client: Hashable) -> float:
        done = self._asking[client] = asyncio.Event()
        try:
            grant = await self._ask(client)
        finally:
            del self._asking[client]
            done.set()
        if grant is None:
            return self._decided(FROM_PROCESS, 0.0)
        self._keep(client, grant)
        return self._decided(FROM_REDIS, self._counted(client, grant.wait))

    def _known(self, client: Hashable) -> float | None:
        """The wait where Redis need not be asked for it."""
        taken, now = self._taken.get(client), self._monotonic()
        if taken is None:
            return None
        if taken.refused_until > now:
            return taken.refused_until - now
        if taken.requests == 0 or now > taken.until:
            return None
        taken.requests -= 1
        return 0.0

    def _keep(self, client: Hashable, grant: Grant) -> None:
        """All that was granted but for one, which the request that asked is."""
        now = self._monotonic()
        self._taken[client] = _Taken(
            max(0, grant.requests - 1), now + _KEPT_SECONDS, now + grant.wait
        )
        self._taken.move_to_end(client)
        if len(self._taken) > self._clients:
            self._taken.popitem(last=False)

    def _counted(self, client: Hashable, wait: float) -> float:
        if wait:
            self._own.give_back(client)
        return wait

    def _decided(self, source: str, wait: float) -> float:
        self._live.counts.decided(source, "refused" if wait else "allowed")
        return wait

    async def _ask(self, client: Hashable) -> Grant | None:
        rates, key = self._live.rates, f"{self._name}:{client}"
        return await self._questions.ask(
            lambda: rates.take(key, self._per_second, self._burst, self._at_once)
        )
