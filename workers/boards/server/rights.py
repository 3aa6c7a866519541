"""Serving as a user with no other rights."""

from __future__ import annotations

import ctypes
import os
import pwd

PR_SET_NO_NEW_PRIVS = 38
NO_USER = 2**32 - 1


def user_and_group(text: str) -> tuple[int, int]:
    """The numbers of a user and its group, given as its name or as `USER:GROUP` in numbers. Raises
    ValueError where there is no such user, and for root."""
    try:
        user, _, group = text.partition(":")
        known = pwd.getpwnam(text) if not group else None
        numbers = (known.pw_uid, known.pw_gid) if known else (int(user), int(group))
    except (KeyError, ValueError):
        raise ValueError(f"there is no user {text!r} here; make one (useradd --system)") from None
    if 0 in numbers:
        raise ValueError(f"the user {text!r} has root's rights; name one of its own")
    # The kernel takes -1, and the largest number, for `as it is`.
    if not all(0 < number < NO_USER for number in numbers):
        raise ValueError(f"the user {text!r} cannot be: numbers go from 1 to {NO_USER - 1}")
    return numbers


def take_rights_of(user: int, group: int) -> None:
    """Go on as this user and nobody else, for good: with its group alone, and without a way to more
    rights. Raises OSError where this process may not."""
    os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
