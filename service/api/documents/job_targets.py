"""The target of a submitted job, completed by what is known of its boards."""

from __future__ import annotations

from tunebook.cache.errors import TargetError
from tunebook.service.given_targets import HOST
from tunebook.service.known_classes import KnownClass


def job_target(spelling: str | None, board_class: KnownClass) -> str:
    """The canonical text of a target, completed by the class of its boards; all of it where none is
    given. Raises TargetError for one that cannot be completed, and for `host`."""
    if spelling is not None and spelling.strip() == HOST:
        raise TargetError(
            "the target host stands for the machine of whoever asks, which the coordinator does "
            "not know; give the text that `tunebook target host` prints there"
        )
    return board_class.complete(spelling)
