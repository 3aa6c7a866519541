"""Whether the boards that are registered can run a target's code, and in words why none can."""

from __future__ import annotations

from collections.abc import Sequence

from tunebook.cache.boards.registrations import RegisteredBoard
from tunebook.cache.targets import Target
from tunebook.tuner.board_features import (
    missing_features,
    needed_features,
    runs_architecture,
    some_of,
)
from tunebook.workers.boards.tracker import TrackerAddress


def why_none_fits(
    target: Target, board_class: str, tracker: TrackerAddress, boards: Sequence[RegisteredBoard]
) -> str | None:
    """Why none of a class's boards runs a target's code, in one line that names what it needs and
    the boards; None where one does, and where none is there that could say."""
    needed = needed_features(target)
    lacking = [why_unfit(target, needed, board) for board in boards]
    reasons = [reason for reason in lacking if reason is not None]
    if not boards or len(reasons) < len(boards):
        return None
    return (
        f"no board of class {board_class!r} at the tracker {tracker} runs code for {target}: "
        f"{some_of(reasons)}; name a target that they run, or other boards with --boards"
    )


def why_unfit(target: Target, needed: frozenset[str], board: RegisteredBoard) -> str | None:
    """What a board lacks for a target, by what it tells of itself; None for nothing."""
    if not runs_architecture(target, board.mtriple):
        return f"{board.label} runs {board.mtriple}"
    missing = missing_features(needed, board.features)
    return f"{board.label} lacks {' and '.join(missing)}" if missing else None
