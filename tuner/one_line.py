"""An exception's message as one line that fits into a record."""

from __future__ import annotations

import re

_LENGTH = 1500
# TVM appends the C++ call stack to its messages, and some repeat Python's.
_STACK = re.compile(r"^\s*(File \"|Stack trace|Traceback|\[bt\]|\d+: |\^+$)")


def one_line(error: BaseException) -> str:
    """The exception's type and message on one line, without call stacks."""
    lines = [line for line in str(error).splitlines() if not _STACK.match(line)]
    kind = type(error).__name__
    message = " ".join(" ".join(lines).split())[:_LENGTH].removeprefix(f"{kind}: ")
    return f"{kind}: {message}" if message else kind
