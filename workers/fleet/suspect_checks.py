"""Suspect records are measured again on boards that measure well, while a worker has nothing else
to do."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Sequence
from concurrent.futures import wait

from tunebook.cache.errors import BoardError, DatabaseError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import ErrorClass, Record
from tunebook.cache.targets import Target
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.llvm_targets import resolve_target
from tunebook.tuner.trials.build_pool import BuildFuture
from tunebook.tuner.trials.trials import BuildFailure, BuiltLibrary
from tunebook.workers.boards.board_classes import BoardClass
from tunebook.workers.fleet.fleet_context import FleetContext
from tunebook.workers.fleet.open_workbenches import OpenWorkbench, OpenWorkbenches
from tunebook.workers.rounds.log_members import members_of
from tunebook.workers.rounds.running_round import discard

_log = logging.getLogger(__name__)

# How often it is looked whether there are any, class by class.
_LOOK_SECONDS = 5.0
# So many are measured before it is looked for other work.
_BATCH = 8
# Of so many the batch is drawn by chance: several workers would else all measure the same.
_DRAWN_FROM = 32


class SuspectChecks:
    """Measures suspect records again, on the workbenches of a lane, a few at a time; thread-safe.

    Which boards are used is for the workbenches to know: they refuse those in quarantine. What
    cannot be built here, or takes its board down, is left to other workers.
    """

    def __init__(self, context: FleetContext, benches: OpenWorkbenches) -> None:
        self._context = context
        self._benches = benches
        self._working = threading.Lock()
        self._next: dict[str, float] = {}
        self._left_out: set[int] = set()
        self._random = random.Random(context.name)

    def measure_some(self, board_class: BoardClass) -> bool:
        """Measures some of a class's suspect records again; whether there were any for this worker.

        Raises BoardError when no board can be had, and DatabaseError.
        """
        if not self._working.acquire(blocking=False):
            return False  # another loop of the lane does
        try:
            now = self._context.monotonic()
            if now < self._next.get(board_class.name, now):
                return False
            found = self._find(board_class)
            if found is None:
                self._next[board_class.name] = now + _LOOK_SECONDS
                return False
            self._measure(board_class, *found)
            return True
        finally:
            self._working.release()

    def _find(self, board_class: BoardClass) -> tuple[Target, list[Record]] | None:
        """A target that the class's boards run, and some of its suspect records."""
        boards = self._context.store.boards
        for text in boards.suspect_targets(board_class.name, compiler_text()):
            target = resolve_target(text)
            if board_class.why_not(target) is None and (records := self._some(board_class, text)):
                return target, records
        return None

    def _some(self, board_class: BoardClass, target: str) -> list[Record]:
        most = _DRAWN_FROM + len(self._left_out)
        found = self._context.store.boards.suspects(board_class.name, target, compiler_text(), most)
        records = [one for one in found if one.id not in self._left_out][:_DRAWN_FROM]
        return self._random.sample(records, min(_BATCH, len(records)))

    def _measure(self, board_class: BoardClass, target: Target, records: Sequence[Record]) -> None:
        self._context.activity.note(f"measuring suspect records of {board_class.name} again")
        try:
            with (
                board_class.away_where_lost(),
                self._benches.use(board_class, target) as one,
            ):
                self._measure_on(one, records)
        except (BoardError, DatabaseError):
            raise
        except Exception:  # TVM raises whatever it likes, and jobs are to go on
            if not self._context.stop.is_set():
                _log.exception("suspect records are left to other workers")
                self._left_out.update(record.id for record in records)

    def _measure_on(self, one: OpenWorkbench, records: Sequence[Record]) -> None:
        bench, builds = one.bench, dict[BuildFuture, Record]()
        try:
            with bench.machine.working():
                for record in records:
                    builds[bench.build(record.key, record.candidate)] = record
                if bench.board.shares_host:
                    wait(builds)
            with bench.machine.measuring():
                again = set[ScheduleKey]()
                for build, record in builds.items():
                    if self._context.stop.is_set():
                        return
                    if self._measure_one(one, record, build.result()):
                        again.add(record.key)
                for key in sorted(again):
                    # A failure may be the best now, and what was the best a failure.
                    one.runner.verify_best(key, {})
        finally:
            discard(builds)

    def _measure_one(
        self, one: OpenWorkbench, record: Record, built: BuiltLibrary | BuildFailure
    ) -> bool:
        """Whether the record has new figures now."""
        store, told = self._context.store, {"record": record.id, **members_of(record.key)}
        if isinstance(built, BuildFailure):
            # It was built before: this machine's fault.
            _log.warning("a suspect record does not build again: %s", built.text, extra=told)
            self._left_out.add(record.id)
            return False
        if not store.record(record.id).suspect:
            return False  # another worker was faster
        measured = one.bench.measurer.measure(built, one.bench.programs.program(record.key))
        if measured.error is ErrorClass.BOARD_LOST:
            if self._context.stop.is_set():
                return False  # it was us who ended it
            self._left_out.add(record.id)
        if not store.boards.remeasured(record.id, measured):
            return False
        figures = {"board": measured.board, "seconds": measured.seconds}
        was = {"was_board": record.measurement.board, "was_seconds": record.measurement.seconds}
        _log.info("a suspect record was measured again", extra={**told, **figures, **was})
        return True
