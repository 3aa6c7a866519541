"""Scheduled programs as TVMScript: made in a process that may die of it, and kept for a while."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass

from anyio import CapacityLimiter, to_thread

from tunebook.cache.errors import TunebookError
from tunebook.cache.lists.catalogue import DetailedRecord
from tunebook.cache.store import Store
from tunebook.cache.untrusted.traces import check_trace
from tunebook.tuner.interchange.foreign_programs import (
    ForeignPrograms,
    Refused,
    Script,
    ShowScheduled,
)

_log = logging.getLogger(__name__)

_KEPT = 256
_LONGEST = 1_000_000


@dataclass(frozen=True)
class ScriptAnswer:
    """A program's text, or why there is none in one line."""

    text: str | None
    error: str | None = None


class Scripts:
    """Scheduled programs of records, one made at a time, by the hash of the scheduled module.

    This process knows no TVM. The process that does is started for each program that is not kept,
    with limits of memory and time, and ends when it has answered.
    """

    def __init__(self, store: Store, *, kept: int = _KEPT) -> None:
        self._store = store
        self._most = kept
        self._kept: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._turns: CapacityLimiter | None = None

    async def of(self, record: DetailedRecord) -> ScriptAnswer:
        """The program of a record. Whoever waits for its turn takes no thread meanwhile."""
        if self._turns is None:
            self._turns = CapacityLimiter(1)
        place = (record.listed.key.workload_hash, record.listed.module_hash)
        if place not in self._kept:
            async with self._turns:
                if place not in self._kept:
                    answer = await to_thread.run_sync(self._make, record)
                    if answer.text is None:
                        return answer
                    self._keep(place, answer.text)
        self._kept.move_to_end(place)
        return ScriptAnswer(self._kept[place])

    def _keep(self, place: tuple[str, str], text: str) -> None:
        self._kept[place] = text
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def _make(self, record: DetailedRecord) -> ScriptAnswer:
        key = record.listed.key
        try:
            check_trace(record.trace)
            tir = self._store.workload(key.workload).tir
            with ForeignPrograms(processes=1) as programs:
                (answer,) = programs.answers([ShowScheduled(tir, record.trace)])
        except TunebookError as error:
            _log.warning(
                "no script was made", extra={"record": record.listed.id, "error": str(error)}
            )
            return ScriptAnswer(None, str(error))
        if isinstance(answer, Refused):
            return ScriptAnswer(None, answer.reason)
        assert isinstance(answer, Script)
        if len(answer.text) > _LONGEST:
            return ScriptAnswer(None, f"the program has more than {_LONGEST} characters")
        return ScriptAnswer(answer.text)
