"""Durations as people write them: `90`, `90s`, `10m`, `1.5h`."""

from __future__ import annotations

import re

from tunebook.cache.errors import UsageError

_FORM = re.compile(r"(\d+(?:\.\d+)?)\s*([smh]?)", re.ASCII)
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Seconds. Raises UsageError for anything but a positive number with s, m, h or no unit."""
    match = _FORM.fullmatch(text.strip())
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if seconds <= 0:
        raise UsageError(f"'{text}' is no duration: give a positive one such as 90s, 10m or 1.5h")
    return seconds


def show_duration(seconds: float) -> str:
    """As short as it can be read: `0:42`, `3:05`, `1:02:09`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
