"""Keeping what was claimed: a beat in the background, and the news when it was lost."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType

from tunebook.cache.errors import DatabaseError, LeaseLostError
from tunebook.cache.store import ClaimedRound, Store
from tunebook.workers.rounds.repeating import Repeating

_log = logging.getLogger(__name__)
_BEAT_SECONDS = 2.0
# Less than what a lease outlives without a beat.
_OVERDUE_SECONDS = 3 * _BEAT_SECONDS


class Lease:
    """Beats for what was claimed while its `with` block lasts; `lost` tells that another worker has
    it, or that it was ended."""

    def __init__(
        self,
        name: str,
        beat: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`name` says in a log what is held; `beat` raises LeaseLostError once it is not."""
        self._name = name
        self._beat = beat
        self._monotonic = monotonic
        self._tried_at = monotonic()
        self._lost = threading.Event()
        self._beats = Repeating("lease", _BEAT_SECONDS, self._keep)

    @classmethod
    def of_round(cls, store: Store, claimed: ClaimedRound) -> Lease:
        """The lease of a claimed round."""
        return cls(f"round {claimed.id}", lambda: store.beat(claimed.id, claimed.epoch))

    @property
    def lost(self) -> bool:
        """Whether it is somebody else's by now, or nobody's. Where no beat was tried for a while,
        as after this process stood still, one is tried first."""
        if self._monotonic() - self._tried_at > _OVERDUE_SECONDS:
            self._keep()
        return self._lost.is_set()

    def lose(self) -> None:
        """The store said so to another call."""
        self._lost.set()

    def __enter__(self) -> Lease:
        self._beats.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._beats.stop()

    def _keep(self) -> None:
        if self._lost.is_set():
            return
        self._tried_at = self._monotonic()
        try:
            self._beat()
        except LeaseLostError:
            self._lost.set()
        except DatabaseError as error:
            # The next beat may get through; if none does, the lease dies, which is right.
            _log.warning("%s: its beat failed: %s", self._name, error)


@contextmanager
def held_leases(store: Store, rounds: Sequence[ClaimedRound]) -> Iterator[list[Lease]]:
    """The leases of rounds, in order, kept while the block lasts."""
    with ExitStack() as leases:
        yield [leases.enter_context(Lease.of_round(store, claimed)) for claimed in rounds]
