"""The programs of tasks and their unscheduled libraries by key, made when first asked for."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.store import Store
from tunebook.tuner.splitting.program import Program, describe
from tunebook.tuner.trials.build_pool import BuildPool
from tunebook.tuner.trials.trials import BuildFailure, BuildRequest, BuiltLibrary
from tunebook.workers.rounds.log_members import members_of

_log = logging.getLogger(__name__)


class Programs:
    """What measuring and verifying needs of each task, kept while a worker runs."""

    def __init__(self, store: Store, builds: BuildPool) -> None:
        self._store = store
        self._builds = builds
        self._programs: dict[ScheduleKey, Program] = {}
        self._references: dict[ScheduleKey, BuiltLibrary | None] = {}

    def program(self, key: ScheduleKey) -> Program:
        """The task's program."""
        if key not in self._programs:
            self._programs[key] = describe(self._store.workload(key.workload))
        return self._programs[key]

    def build_references(self, keys: Sequence[ScheduleKey]) -> None:
        """Builds the unscheduled programs of these tasks side by side."""
        pending = {
            key: self._builds.submit(BuildRequest(self.program(key).tir, key.target, None))
            for key in keys
            if key not in self._references
        }
        for key, future in pending.items():
            built = future.result()
            if isinstance(built, BuildFailure):
                _log.warning(
                    "%s: the unscheduled program does not build: %s",
                    key,
                    built.text,
                    extra=members_of(key),
                )
            self._references[key] = built if isinstance(built, BuiltLibrary) else None

    def close(self) -> None:
        """Removes the unscheduled libraries; they are built again where somebody asks."""
        for library in self._references.values():
            if library is not None:
                library.path.unlink(missing_ok=True)
        self._references.clear()

    def reference(self, key: ScheduleKey) -> BuiltLibrary | None:
        """The unscheduled program as a library, or None where it cannot be built."""
        self.build_references([key])
        return self._references[key]
