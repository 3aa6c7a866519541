"""One measurement at a time on this machine, and nothing of ours beside it, whichever command's.

Two `tunebook tune` on one machine would otherwise build while the other measures.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from platformdirs import user_cache_path

_LOCK = "this-machine-measures.lock"


class QuietMachine:
    """A lock that the commands of a user share that measure on this machine.

    Whoever builds or searches holds it together with others, whoever measures holds it alone.
    The system frees it with the process, however that ends. Not for several threads at once.
    Where the boards are others (`measures_here` is false) it holds up nobody.
    """

    def __init__(self, *, measures_here: bool, folder: Path | None = None) -> None:
        self._file: int | None = None
        if measures_here:
            place = folder or user_cache_path("tunebook", ensure_exists=True)
            self._file = os.open(place / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def close(self) -> None:
        """Frees the lock."""
        if self._file is not None:
            os.close(self._file)

    def __enter__(self) -> QuietMachine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def working(self) -> AbstractContextManager[None]:
        """For building and searching: waits while another command measures."""
        return self._holding(fcntl.LOCK_SH)

    def measuring(self) -> AbstractContextManager[None]:
        """For measuring: waits until no other command builds, searches or measures."""
        return self._holding(fcntl.LOCK_EX)

    @contextmanager
    def measuring_if_quiet(self) -> Iterator[bool]:
        """For what can be measured at any time: gives false, and waits for nobody, where another
        command builds, searches or measures."""
        if self._file is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
        try:
            yield True
        finally:
            if self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    @contextmanager
    def _holding(self, kind: int) -> Iterator[None]:
        if self._file is None:
            yield
            return
        fcntl.flock(self._file, kind)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
