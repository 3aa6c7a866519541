"""How commands that run until they are stopped learn that they are to stop."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@contextmanager
def stop_when_told(*, until_input_ends: bool = False) -> Iterator[threading.Event]:
    """An event that is set by SIGTERM, Ctrl-C and the end of our terminal, or when whoever holds
    our input is gone. What is ignored, as by nohup, stays so."""
    stop = threading.Event()
    heard = [one for one in _SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in heard}
    if until_input_ends:
        threading.Thread(target=_follow_input, args=(stop,), daemon=True).start()
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _follow_input(stop: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    stop.set()
