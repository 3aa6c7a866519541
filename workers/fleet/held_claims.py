"""What a lane has claimed, and lets go of when it leaves it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from tunebook.cache.errors import DatabaseError, LeaseLostError

Release = Callable[[], None]


class HeldClaims:
    """Claims by what releases them. Those of several loops may be held at the same time."""

    def __init__(self) -> None:
        self._releases: set[Release] = set()
        # In the order in which they are tried.
        self._owed: dict[Release, None] = {}

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
        self._release((*self._releases, *self._owed))

    def _release(self, releases: Sequence[Release]) -> None:
        for number, release in enumerate(releases):
            self._releases.discard(release)
            self._owed.pop(release, None)
            if not _let_go(release):
                # Each further attempt might wait as long: they come first the next time.
                self._owe((*releases[number + 1 :], release))
                return

    def _owe(self, releases: Iterable[Release]) -> None:
        for release in releases:
            self._releases.discard(release)
            self._owed.pop(release, None)
            self._owed[release] = None


def _let_go(release: Release) -> bool:
    """Whether the database took it; whatever else needs the database says why not."""
    try:
        release()
    except LeaseLostError:
        pass  # What was finished, or is another's by now, is not ours to let go of.
    except DatabaseError:
        return False
    return True
