"""Runs one command within limits, for a process that must not take part in what it does.

`python -m tunebook.service.commands.limited_command BYTES COMMAND...`: its private memory is
limited to so many bytes, its processes inherit that, and it ends when its standard input does,
which is held open by whoever started it.
"""

from __future__ import annotations

import os
import resource
import sys
import threading

from tunebook.service.cli import main

_NICENESS = 10


def _end_with_parent() -> None:
    # Not by sys.stdin, whose lock Python wants when it ends.
    while os.read(0, 1):
        pass
    os._exit(1)


def _main() -> None:
    limit = int(sys.argv[1])
    os.nice(_NICENESS)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.argv[1:] = sys.argv[2:]
    main()


if __name__ == "__main__":
    _main()
