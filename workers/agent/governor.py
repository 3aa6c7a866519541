"""Keeping a frequency governor, by a helper that has the right to set it and no other."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from pathlib import Path

from tunebook.workers.agent.machine import Machine

_log = logging.getLogger(__name__)

HELPER_SOCKET = Path("/run/tunebook-governor.sock")
_ANSWER_SECONDS = 10.0
_LONGEST_ANSWER = 4096
# A governor that does not hold is asked for again after so long.
_ASK_AGAIN_SECONDS = 60.0


class GovernorKeeper:
    """Asks for a governor wherever another holds; says in the log when it cannot be had.

    `wanted` is its name (None: whichever holds will do). What holds, the machine itself tells.
    """

    def __init__(
        self,
        wanted: str | None,
        machine: Machine,
        helper: Path = HELPER_SOCKET,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wanted = wanted
        self._machine = machine
        self._helper = helper
        self._monotonic = monotonic
        self._ask_from = monotonic()
        self._said = ""

    def keep(self) -> None:
        """Asks for the governor where another holds; never raises."""
        if self._wanted is None or self._machine.governor() == self._wanted:
            return
        if self._monotonic() < self._ask_from:
            return
        self._ask_from = self._monotonic() + _ASK_AGAIN_SECONDS
        said = self._ask(self._wanted)
        if said != self._said:
            self._said = said
            level = logging.INFO if said.startswith("ok") else logging.WARNING
            _log.log(level, "governor %s: %s", self._wanted, said)

    def _ask(self, governor: str) -> str:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(_ANSWER_SECONDS)
                connection.connect(str(self._helper))
                connection.sendall(governor.encode() + b"\n")
                # Until the helper has ended: it may write in pieces.
                answer = connection.makefile("rb").read(_LONGEST_ANSWER)
        except OSError as error:
            return (
                f"the helper at {self._helper} does not answer ({error.strerror or error}); "
                "install it, or leave --governor out (docs/operations.md)"
            )
        return " ".join(answer.decode(errors="replace").split()) or "the helper said nothing"
