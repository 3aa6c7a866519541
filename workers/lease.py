"""Keeping a claimed round: a beat in the background, and the news when it was lost."""

from __future__ import annotations

import logging
import threading
from types import TracebackType

from tunebook.cache.errors import DatabaseError, LeaseLostError
from tunebook.cache.store import ClaimedRound, Store

_log = logging.getLogger(__name__)
_BEAT_SECONDS = 2.0


class Lease:
    """Beats for one round while its `with` block lasts; `lost` tells that another worker has it."""

    def __init__(self, store: Store, claimed: ClaimedRound) -> None:
        self._store = store
        self._round = claimed
        self._stop = threading.Event()
        self._lost = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)

    @property
    def lost(self) -> bool:
        """Whether another worker claimed the round meanwhile."""
        return self._lost.is_set()

    def lose(self) -> None:
        """The store said so to another call."""
        self._lost.set()

    def __enter__(self) -> Lease:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._stop.wait(_BEAT_SECONDS):
            try:
                self._store.beat(self._round.id, self._round.epoch)
            except LeaseLostError:
                self._lost.set()
                return
            except DatabaseError as error:
                # The next beat may get through; if none does, the lease dies, which is right.
                _log.warning("round %d: beat failed: %s", self._round.id, error)
