"""What boards and their classes may be called."""

from __future__ import annotations

import re

from tunebook.cache.errors import UsageError

CLASS_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
LONGEST_NAME = 100
# Under this key, behind a class's own name, boards in quarantine stand at the tracker: there they
# are measured by their reference alone.
_QUARANTINE = ".quarantined"


def is_class_name(name: str) -> bool:
    """Whether a class of boards can be called so."""
    return re.fullmatch(CLASS_PATTERN, name) is not None


def quarantine_class(board_class: str) -> str:
    """The key at the tracker of a class's boards that are in quarantine."""
    return board_class + _QUARANTINE


def own_class(key: str) -> str:
    """The class of boards that stand under a key at the tracker, in quarantine or not."""
    return key.removesuffix(_QUARANTINE)


def check_own_class(board_class: str) -> None:
    """Raises UsageError for what boards in quarantine are called at the tracker, which is no class
    of its own: nothing but their reference is measured there."""
    if own_class(board_class) != board_class:
        raise UsageError(
            f"{board_class[:LONGEST_NAME]} is what boards in quarantine are called at the tracker, "
            f"and no class; name {own_class(board_class)[:LONGEST_NAME]}"
        )


def is_board_name(name: str) -> bool:
    """Whether a board can be called so: one printable line that can be a part of an address."""
    return (
        0 < len(name) <= LONGEST_NAME
        and name.isprintable()
        and name == name.strip()
        and "/" not in name
        and name not in (".", "..")
    )


def board_address(board_class: str, name: str) -> str:
    """`CLASS/BOARD`, as a token names its board."""
    return f"{board_class}/{name}"


def check_board_address(text: str) -> None:
    """Raises UsageError for what is not `CLASS/BOARD`."""
    board_class, _, name = text.partition("/")
    if not (is_class_name(board_class) and is_board_name(name)):
        raise UsageError(
            f"{text[: 2 * LONGEST_NAME]!r} names no board; give its class and its own name as "
            "CLASS/BOARD, such as rpi4b/rpi4b-1"
        )
    check_own_class(board_class)
