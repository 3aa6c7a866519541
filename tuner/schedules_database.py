"""The schedules of one build as TVM asks for them, and an account of what it asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from tunebook.cache.errors import TunebookError, UntrustedTraceError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Schedule
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.one_line import one_line
from tunebook.tuner.replay import replay


class ReplayError(TunebookError):
    """A stored schedule that does not replay on its workload, or not to what was measured."""


class AskedTasks:
    """What a build asked for, and what went wrong meanwhile.

    An exception raised in a database crosses TVM as a bare RuntimeError, so the real one is kept
    here.
    """

    def __init__(self, keys: Iterable[ScheduleKey]) -> None:
        self._keys = {key.workload_hash: key for key in keys}
        self._asked: dict[str, ScheduleKey] = {}  # by the function's name in this build
        self.failure: TunebookError | None = None

    def note(self, workload_hash: str, function: str) -> ScheduleKey:
        """Raises ReplayError for a workload that the model was not split into."""
        if workload_hash not in self._keys:
            raise ReplayError(
                f"the build asks for workload {workload_hash} ({function}), which splitting the "
                f"model did not give; prepare the module with the same choices"
            )
        self._asked[function] = self._keys[workload_hash]
        return self._keys[workload_hash]

    def key_of(self, function: str) -> ScheduleKey | None:
        """The key behind a function of this build, if it was asked for."""
        return self._asked.get(function)

    @property
    def unasked(self) -> tuple[ScheduleKey, ...]:
        """The tasks that the build never asked for."""
        return tuple(sorted(set(self._keys.values()) - set(self._asked.values())))


@derived_object
class SchedulesDatabase(ms.database.PyDatabase):  # type: ignore[misc]
    """Answers TVM's queries from the schedules of one target.

    Use it as TVM's own: `with target, database: ...`. TVM's databases ignore the target, so this
    one holds the schedules of exactly one. `asked` is filled as TVM asks; a workload without a
    schedule is answered with none, and its function stays untuned.
    """

    def __init__(
        self, schedules: Mapping[ScheduleKey, Schedule], target: Any, asked: AskedTasks
    ) -> None:
        super().__init__()
        self._schedules = {key.workload_hash: one for key, one in schedules.items()}
        self._target = target
        self._asked = asked

    def query_tuning_record(self, mod: Any, target: Any, workload_name: str) -> Any:
        """The record of a module, replayed and compared with what was measured."""
        workload_hash = module_hash(mod)
        try:
            key = self._asked.note(workload_hash, str(workload_name))
            schedule = self._schedules.get(workload_hash)
            return None if schedule is None else self._record(mod, key, schedule)
        except TunebookError as error:
            self._asked.failure = self._asked.failure or error
            raise

    def _record(self, mod: Any, key: ScheduleKey, schedule: Schedule) -> Any:
        replayed = _replay(mod, key, schedule)
        # TVM switches to anchor traces when the record's module is not the one that it asked for.
        workload = ms.database.Workload(mod)
        return ms.database.TuningRecord(replayed.trace, workload, [schedule.seconds], self._target)


def _replay(mod: Any, key: ScheduleKey, schedule: Schedule) -> Any:
    try:
        replayed = replay(mod, schedule.trace)
    except UntrustedTraceError:
        raise
    except Exception as error:
        raise ReplayError(
            f"record {schedule.record_id} does not replay on {key}: {one_line(error)}; "
            f"tune that task again"
        ) from error
    found = module_hash(replayed.mod)
    if found != schedule.module_hash:
        raise ReplayError(
            f"record {schedule.record_id} for {key} replays to module {found} and not to "
            f"{schedule.module_hash}, which was measured; tune that task again"
        )
    return replayed
