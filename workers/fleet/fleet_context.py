"""What all parts of a fleet worker share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tunebook.cache.live.doorbell import Bell
from tunebook.cache.store import Store
from tunebook.workers.fleet.model_fetching import ModelSource
from tunebook.workers.fleet.untrusted_models import SplitLimits
from tunebook.workers.fleet.worker_presence import Activity
from tunebook.workers.rounds.workbench import WorkerSettings


@dataclass(frozen=True)
class FleetContext:
    """A worker: its name in the database, where models are, how it works, what wakes it, and its
    end.

    `stop` is set once it is to leave: what it holds is then given back as it is.
    """

    name: str
    store: Store
    models: ModelSource
    settings: WorkerSettings
    limits: SplitLimits
    activity: Activity
    stop: threading.Event = field(default_factory=threading.Event)
    monotonic: Callable[[], float] = time.monotonic
    bell: Bell = field(default_factory=Bell)
