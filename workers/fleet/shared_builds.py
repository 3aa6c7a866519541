"""The build processes that all workbenches of a worker share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from tunebook.tuner.trials.build_pool import BuildPool


class SharedBuilds:
    """The build processes of all workbenches, started when the first needs them."""

    def __init__(self, opens: Callable[[], AbstractContextManager[BuildPool]]) -> None:
        self._opens = opens
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._pool: BuildPool | None = None
        self._closed = False

    def pool(self) -> BuildPool:
        """The processes. Raises RuntimeError once they were closed."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the build processes of this worker were closed")
            if self._pool is None:
                self._pool = self._stack.enter_context(self._opens())
            return self._pool

    def close(self) -> None:
        """Ends them, and what they build."""
        with self._lock:
            self._closed = True
            self._stack.close()
