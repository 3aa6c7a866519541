"""Ends jobs that are over, tells of those that wait, and forgets what is old, also while no worker
is there to do so."""

from __future__ import annotations

import logging
import threading
import time

from tunebook.cache.errors import DatabaseError
from tunebook.cache.queue.job_queue import JobQueue
from tunebook.cache.storage.moments import now

_log = logging.getLogger(__name__)

_TIDY_SECONDS = 3600.0


class JobKeeper:
    """Looks after the jobs of a coordinator now and then, in a thread of its own.

    Workers end jobs and tell of them too while they live; without one a deadline would end nothing,
    and nobody would be told that a job waits.
    """

    def __init__(self, queue: JobQueue, *, look_seconds: float) -> None:
        self._queue = queue
        self._look_seconds = look_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="job-keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        tidied = -_TIDY_SECONDS
        while not self._stop.wait(self._look_seconds):
            try:
                for job_id in self._queue.end_spent():
                    _log.info("a job ended", extra={"job": job_id})
                self._queue.note_waiting()
                if time.monotonic() - tidied >= _TIDY_SECONDS:
                    tidied = time.monotonic()
                    self._queue.tidy(now())
            except DatabaseError as error:
                _log.warning("cannot look after the jobs", extra={"error": str(error)})
