"""Why a process ended, in words."""

from __future__ import annotations

import signal


def exit_text(code: int) -> str | None:
    """By its exit code, as multiprocessing tells it; None where it ended as it should."""
    if code == 0:
        return None
    if code < 0:
        return f"its process was ended by {signal_name(-code)} ({signal.strsignal(-code)})"
    return f"its process failed with exit code {code}"


def signal_name(number: int) -> str:
    """A signal's name; of those that are free for any use only the first and last have one."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
