"""What boards and their classes may be called."""

from __future__ import annotations

import re

from tunebook.cache.errors import UsageError

CLASS_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
LONGEST_NAME = 100


def is_class_name(name: str) -> bool:
    """Whether a class of boards can be called so."""
    return re.fullmatch(CLASS_PATTERN, name) is not None


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
