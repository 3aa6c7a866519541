"""A fleet worker in a thread of the test."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tunebook.cache.model_files import ModelFiles
from tunebook.cache.store import Store
from tunebook.workers.boards.board_classes import BoardClass
from tunebook.workers.fleet.fleet_worker import FleetSettings, run_fleet_worker


@contextmanager
def worker_in_a_thread(
    store: Store, models: ModelFiles, classes: Sequence[BoardClass], settings: FleetSettings
) -> Iterator[None]:
    """Serves jobs meanwhile, and is told to stop on leaving."""
    stop = threading.Event()
    worker = threading.Thread(
        target=run_fleet_worker, args=(store, models, classes, settings), kwargs={"stop": stop}
    )
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join(60)
        assert not worker.is_alive()
