"""The schedules of one build as TVM asks for them, and an account of what it asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from tunebook.cache.errors import TunebookError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Schedule
from tunebook.tuner.builds.replayed_records import replayed_record
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.traces.usable import ReplayError


class BuildAccount:
    """What a build asked for, and what went wrong meanwhile.

    An exception raised in a database crosses TVM as a bare RuntimeError, so the real one is kept
    here.
    """

    def __init__(self, keys: Iterable[ScheduleKey]) -> None:
        self._keys = {key.workload_hash: key for key in keys}
        self._asked: dict[str, ScheduleKey] = {}  # by the function's name in this build
        self.failure: TunebookError | None = None

    def note(self, workload_hash: str, function: str) -> None:
        """Notes that a function was asked for. Raises ReplayError for a workload that the model
        was not split into."""
        if workload_hash not in self._keys:
            raise ReplayError(
                f"the build asks for workload {workload_hash} ({function}), which splitting the "
                f"model did not give; prepare the module with the same choices"
            )
        self._asked[function] = self._keys[workload_hash]

    def key_of(self, function: str) -> ScheduleKey | None:
        """The key behind a function of this build, if it was asked for."""
        return self._asked.get(function)

    @property
    def unasked(self) -> tuple[ScheduleKey, ...]:
        """The tasks that the build never asked for."""
        return tuple(sorted(set(self._keys.values()) - set(self._asked.values())))


@derived_object
class SchedulesDatabase(ms.database.PyDatabase):  # type: ignore[misc]
    """Answers TVM's queries from the schedules of one target, which were looked up before.

    Use it as TVM's own: `with target, database: ...`. TVM's databases ignore the target, so this
    one holds the schedules of exactly one. `account` is filled as TVM asks; a workload without a
    schedule is answered with none, and its function stays untuned.
    """

    def __init__(
        self, schedules: Mapping[ScheduleKey, Schedule], target: Any, account: BuildAccount
    ) -> None:
        super().__init__()
        self._schedules = {key.workload_hash: one for key, one in schedules.items()}
        self._target = target
        self._account = account

    def query_tuning_record(self, mod: Any, target: Any, workload_name: str) -> Any:
        """The record of a module, replayed and compared with what was measured."""
        workload_hash = module_hash(mod)
        try:
            self._account.note(workload_hash, str(workload_name))
            schedule = self._schedules.get(workload_hash)
            if schedule is None:
                return None
            return replayed_record(mod, schedule, self._target)
        except TunebookError as error:
            self._account.failure = self._account.failure or error
            raise
