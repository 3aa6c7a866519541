"""Clients that look up all the time, and count what came of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tunebook.cache.errors import TunebookError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.remote.client import Client
from tunebook.cache.remote.retries import Retries

_PAUSE_SECONDS = 0.2
# A busy machine takes longer to start a replica again than the clients' own patience.
PATIENCE = 240.0


@dataclass(frozen=True)
class AskedCounts:
    """Look-ups that were answered, attempts that were made again, what could not be mended, and the
    seconds that all look-ups with another attempt took together."""

    answered: int = 0
    retried: int = 0
    failed: int = 0
    mending: float = 0.0

    def __add__(self, more: AskedCounts) -> AskedCounts:
        return AskedCounts(
            self.answered + more.answered,
            self.retried + more.retried,
            self.failed + more.failed,
            self.mending + more.mending,
        )

    def since(self, before: AskedCounts) -> AskedCounts:
        return AskedCounts(
            self.answered - before.answered,
            self.retried - before.retried,
            self.failed - before.failed,
            self.mending - before.mending,
        )


class AskingClient:
    """A client of one replica, with the retries that every client makes. A look-up has failed where
    it raises, and where it misses what is served."""

    def __init__(self, url: str, token: str, keys: Sequence[ScheduleKey]) -> None:
        self._keys = keys
        retries = Retries(patience=PATIENCE, sleep=self._sleep)
        self._client = Client(url, token, pipeline="fleet", retries=retries)
        self._counts = AskedCounts()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._ask_on, name=f"asks {url}")
        self.faults: list[str] = []

    @property
    def counts(self) -> AskedCounts:
        return self._counts

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._client.close()

    def _sleep(self, seconds: float) -> None:
        self._counts += AskedCounts(retried=1)
        self._stopping.wait(seconds)

    def _ask_on(self) -> None:
        while not self._stopping.wait(_PAUSE_SECONDS):
            self._ask()

    def _ask(self) -> None:
        began, before = time.monotonic(), self._counts
        try:
            answer = self._client.lookup(self._keys, accept_emulated=True)
            fault = "; ".join(str(miss) for miss in answer.misses)
        except TunebookError as error:
            fault = str(error)
        if self._stopping.is_set():
            return
        took = time.monotonic() - began
        if fault:
            self.faults.append(f"after {took:.1f} s: {fault}")
        was_mended = not fault and self._counts.retried > before.retried
        self._counts += AskedCounts(
            answered=int(not fault), failed=int(bool(fault)), mending=took if was_mended else 0.0
        )
