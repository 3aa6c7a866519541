"""The programs of tasks and their unscheduled libraries by key, made when first asked for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.store import Store
from tunebook.tuner.splitting.program import Program, describe
from tunebook.tuner.trials.build_pool import BuildFuture, BuildPool
from tunebook.tuner.trials.trials import BuildFailure, BuildRequest, BuiltLibrary
from tunebook.workers.rounds.log_members import members_of
from tunebook.workers.rounds.running_round import discard

_log = logging.getLogger(__name__)


class Programs:
    """What measuring and verifying needs of each task, kept while a worker runs; thread-safe."""

    def __init__(self, store: Store, builds: BuildPool) -> None:
        self._store = store
        self._builds = builds
        self._programs: dict[ScheduleKey, Program] = {}
        self._lock = threading.Lock()
        self._pending: dict[ScheduleKey, BuildFuture] = {}

    def program(self, key: ScheduleKey) -> Program:
        """The task's program."""
        if key not in self._programs:
            self._programs[key] = describe(self._store.workload(key.workload))
        return self._programs[key]

    def build_references(self, keys: Sequence[ScheduleKey]) -> None:
        """Builds the unscheduled programs of these tasks side by side."""
        with self._lock:
            new = [key for key in dict.fromkeys(keys) if key not in self._pending]
            for key in new:
                request = BuildRequest(self.program(key).tir, key.target, None)
                self._pending[key] = self._builds.submit(request)
        for key in new:
            try:
                built = self._pending[key].result()
            except BaseException:
                # It says nothing about the program: the next time it may be built.
                with self._lock:
                    self._pending.pop(key, None)
                raise
            if isinstance(built, BuildFailure):
                _log.warning(
                    "%s: the unscheduled program does not build: %s",
                    key,
                    built.text,
                    extra=members_of(key),
                )

    def close(self) -> None:
        """Removes the unscheduled libraries; they are built again where somebody asks."""
        with self._lock:
            pending, self._pending = self._pending, {}
        discard(pending.values())

    def reference(self, key: ScheduleKey) -> BuiltLibrary | None:
        """The unscheduled program as a library, or None where it cannot be built."""
        self.build_references([key])
        built = self._pending[key].result()
        return built if isinstance(built, BuiltLibrary) else None
