"""How often each client may ask."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable


class Rate:
    """So many requests a second for each client, with a burst of so many at once.

    Keeps one number for each client: when what it asked for so far would be paid off at the rate
    (the generic cell rate algorithm of ATM's traffic management). Of more than `clients` of them
    the one that asked longest ago is forgotten, and starts anew. Not safe between threads.
    """

    def __init__(
        self,
        per_second: float,
        burst: int,
        clients: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval = 1 / per_second
        self._tolerance = burst / per_second
        self._clients = clients
        self._monotonic = monotonic
        self._paid_off: OrderedDict[Hashable, float] = OrderedDict()

    def wait(self, client: Hashable) -> float:
        """Counts a request, and gives 0; or, where it is one too many, gives the seconds after
        which the next is allowed, and does not count it."""
        now = self._monotonic()
        paid_off = max(self._paid_off.get(client, now), now) + self._interval
        early = paid_off - now - self._tolerance
        # Sums of floats: a burst is not to fail by a rounding.
        if early > 1e-9:
            return early
        self._paid_off[client] = paid_off
        self._paid_off.move_to_end(client)
        if len(self._paid_off) > self._clients:
            self._paid_off.popitem(last=False)
        return 0.0

    def give_back(self, client: Hashable) -> None:
        """A request that was counted is not let through after all."""
        if client in self._paid_off:
            self._paid_off[client] -= self._interval
