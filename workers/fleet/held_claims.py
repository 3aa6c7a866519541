"""What a lane has claimed, and lets go of when it leaves it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from tunebook.cache.errors import DatabaseError, LeaseLostError

Release = Callable[[], None]


class HeldClaims:
    """Claims by what releases them. Those of several loops may be held at the same time."""

    def __init__(self) -> None:
        self._releases: set[Release] = set()
        self._owed: set[Release] = set()

    @contextmanager
    def held(self, *releases: Release) -> Iterator[None]:
        """Lets go on leaving of what was not finished: whoever claims it then goes on at once.
        Where the database is away it is owed."""
        self._releases.update(releases)
        try:
            yield
        finally:
            self._release(releases)

    def release_owed(self) -> None:
        """Lets go of what could not be let go of before, as far as that is possible now."""
        self._release(tuple(self._owed))

    def release_all(self) -> None:
        """Lets go of all, also of what a loop that does not end still holds."""
        self._release(tuple(self._releases | self._owed))

    def _release(self, releases: Iterable[Release]) -> None:
        for release in releases:
            self._releases.discard(release)
            self._owed.discard(release)
            try:
                release()
            except LeaseLostError:
                pass  # What was finished, or is another's by now, is not ours to let go of.
            except DatabaseError:
                # Whatever else needs the database says so.
                self._owed.add(release)
