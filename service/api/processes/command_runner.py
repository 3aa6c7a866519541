"""Commands that need TVM, run by the coordinator in processes with limits of memory and time."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from tunebook.cache.errors import ExitCode
from tunebook.cache.store import Store
from tunebook.service.api.problems.problems import Problem
from tunebook.service.mending import DATABASE_VARIABLE

_MODULE = "tunebook.service.commands.limited_command"
_SECONDS = 900.0
_MEMORY = 4 * 2**30
_RETRY_SECONDS = 30
_PROBLEMS = {
    ExitCode.DATABASE: "database",
    ExitCode.BAD_TARGET: "bad-target",
    ExitCode.INCOMPATIBLE: "incompatible",
}


class CommandRunner:
    """Runs one command at a time on the coordinator's database, and gives what it printed."""

    def __init__(self, store: Store, *, seconds: float = _SECONDS, memory: int = _MEMORY) -> None:
        self._url = store.url
        self._seconds = seconds
        self._memory = memory
        self._busy = False

    async def run(self, arguments: Sequence[str]) -> bytes:
        """The JSON that the command printed. Raises a problem with its error where it printed
        none, where it takes too long, and while another command runs."""
        if self._busy:
            raise Problem(
                "too-many-requests",
                "another import or export runs; ask again when it has ended",
                headers={"Retry-After": str(_RETRY_SECONDS)},
            )
        self._busy = True
        try:
            return await self._run(arguments)
        finally:
            self._busy = False

    async def _run(self, arguments: Sequence[str]) -> bytes:
        theirs, ours = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", _MODULE, str(self._memory), *arguments, "--json"),
                stdin=theirs,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, DATABASE_VARIABLE: self._url},
                start_new_session=True,
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        try:
            printed, said = await asyncio.wait_for(process.communicate(), self._seconds)
        except asyncio.TimeoutError:
            raise Problem(
                "interchange",
                f"it took longer than {self._seconds:g} s; run `tunebook {arguments[0]}` on the "
                "machine of the coordinator",
            ) from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
            os.close(ours)
        if not printed:
            raise _problem(process.returncode or 0, said)
        return printed


def _problem(code: int, said: bytes) -> Problem:
    lines = said.decode(errors="replace").strip().splitlines()
    last = lines[-1].removeprefix("error: ") if lines else f"it ended with {code} and said nothing"
    kind = _PROBLEMS.get(ExitCode(code)) if code in set(ExitCode) else None
    return Problem(kind or "interchange", last)
