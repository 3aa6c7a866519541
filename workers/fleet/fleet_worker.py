"""The fleet worker: serves the jobs that were submitted to a coordinator, on the boards it has."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

from tunebook.cache.errors import DatabaseError
from tunebook.cache.live.doorbell import Bell
from tunebook.cache.queue.fleet import ServedBoard
from tunebook.cache.store import Store
from tunebook.tuner.compiler import compiler_text
from tunebook.workers.boards.board_classes import BoardClass
from tunebook.workers.fleet.fleet_context import FleetContext
from tunebook.workers.fleet.lane import Lane
from tunebook.workers.fleet.model_fetching import ModelSource
from tunebook.workers.fleet.reference_checks import ReferenceChecks, ReferenceTimes
from tunebook.workers.fleet.shared_builds import SharedBuilds
from tunebook.workers.fleet.untrusted_models import SplitLimits
from tunebook.workers.fleet.worker_presence import Activity, WorkerPresence
from tunebook.workers.rounds.round_loops import OVERLAPPING_LOOPS
from tunebook.workers.rounds.workbench import WorkerSettings, open_build_pool

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
# From being told to stop to giving back what is held, over all lanes: what is in C++ by then is
# left to the kernel.
_LEAVING_SECONDS = 3.0


@dataclass(frozen=True)
class FleetSettings:
    """How a fleet worker works, what opening a model may take, and how often it measures boards'
    references."""

    work: WorkerSettings = field(default_factory=WorkerSettings)
    limits: SplitLimits = field(default_factory=SplitLimits)
    references: ReferenceTimes = field(default_factory=ReferenceTimes)


def run_fleet_worker(
    store: Store,
    models: ModelSource,
    classes: Sequence[BoardClass],
    settings: FleetSettings,
    *,
    stop: threading.Event,
    name: str | None = None,
    bell: Bell | None = None,
) -> bool:
    """Serves jobs until `stop` is set; then gives back what it holds and leaves within seconds.

    Gives whether all of its threads ended; where one is stuck in native code, the process has to be
    ended for it. `name` is the worker's in the database (None: made from the host and the process).
    `bell` wakes it when there is work (None: it looks each second).
    Raises TunebookError when this machine cannot build.
    """
    context = FleetContext(
        name or f"{socket.gethostname()}-{os.getpid()}",
        store,
        models,
        settings.work,
        settings.limits,
        Activity(),
        stop,
        bell=bell or Bell(),
    )
    return _FleetWorker(context, classes, settings.references).run()


class _FleetWorker:
    def __init__(
        self, context: FleetContext, classes: Sequence[BoardClass], times: ReferenceTimes
    ) -> None:
        self._context = context
        self._classes = classes
        self._looks = ThreadPoolExecutor(len(classes) or 1, thread_name_prefix="look")
        self._there: set[str] = set()
        self._builds = SharedBuilds(lambda: open_build_pool(context.settings))
        references = ReferenceChecks(context.store, self._builds, times)
        self._lanes = [
            Lane(context, of_lane, self._builds, references, loops=loops)
            for of_lane, loops in _lanes(classes)
        ]

    def run(self) -> bool:
        context = self._context
        told = {"worker": context.name, "compiler": compiler_text()}
        presence = WorkerPresence(
            context.store, context.name, compiler_text(), context.activity, self._look
        )
        with ExitStack() as ends:
            for one in self._classes:
                ends.callback(one.close)
            ends.callback(self._looks.shutdown)
            with presence:
                names = [one.name for one in self._classes]
                _log.info("ready", extra={**told, "board_classes": ", ".join(names)})
                for lane in self._lanes:
                    lane.start()
                try:
                    self._watch()
                finally:
                    context.stop.set()
                    ended = self._leave()
        _log.info("left", extra=told)
        return ended

    def _look(self) -> list[ServedBoard]:
        """All at once: a tracker that does not answer must not hold up the beat."""
        found = list(self._looks.map(BoardClass.look, self._classes))
        there = {one.name for one in self._classes if one.is_there}
        if there - self._there:
            # There may have been work for it all the time.
            self._context.bell.ring()
        self._there = there
        return [board for boards in found for board in boards]

    def _watch(self) -> None:
        """Until the stop; ends the jobs that have nothing left to do meanwhile."""
        queue = self._context.store.queue
        while not self._context.stop.wait(_LOOK_SECONDS):
            for lane in self._lanes:
                if lane.failed is not None:
                    raise lane.failed
            try:
                for job_id in queue.end_spent():
                    _log.info("a job ended", extra={"job": job_id})
                queue.note_waiting()
            except DatabaseError as error:
                _log.warning("%s", error, extra={"worker": self._context.name})

    def _leave(self) -> bool:
        for lane in self._lanes:
            lane.end_at_once()
        self._builds.close()
        try:
            until = self._context.monotonic() + _LEAVING_SECONDS
            ended = [lane.leave(until) for lane in self._lanes]
        except DatabaseError as error:
            _log.warning("what was held is given back once its leases die: %s", error)
            return False
        return all(ended)


def _lanes(classes: Sequence[BoardClass]) -> list[tuple[list[BoardClass], int]]:
    """Boards of this machine share one loop, each other class has loops of its own; at least one,
    since models are split by anybody."""
    here = [one for one in classes if one.on_this_machine]
    elsewhere = [one for one in classes if not one.on_this_machine]
    lanes = [([one], OVERLAPPING_LOOPS) for one in elsewhere]
    if here or not lanes:
        lanes.insert(0, (here, 1))
    return lanes
