"""What a lane has claimed, and lets go of when it leaves it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from tunebook.cache.errors import LeaseLostError

Release = Callable[[], None]


class HeldClaims:
    """Claims by what releases them. Those of several loops may be held at the same time."""

    def __init__(self) -> None:
        self._releases: set[Release] = set()

    @contextmanager
    def held(self, *releases: Release) -> Iterator[None]:
        """Lets go on leaving of what was not finished: whoever claims it then goes on at once."""
        self._releases.update(releases)
        try:
            yield
        finally:
            self._release(releases)

    def release_all(self) -> None:
        """Lets go of all, also of what a loop that does not end still holds."""
        self._release(tuple(self._releases))

    def _release(self, releases: Iterable[Release]) -> None:
        for release in releases:
            self._releases.discard(release)
            # What was finished, or is another's by now, is not ours to let go of.
            with suppress(LeaseLostError):
                release()
