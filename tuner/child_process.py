"""A child process that may be killed at any moment: it answers messages, or it dies and says why.

Both ends of it: `ChildProcess` starts, asks and kills one; `serve_parent` is what runs inside.
"""

from __future__ import annotations

import fcntl
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socketpair
from typing import Any

from tunebook.cache.errors import TunebookError

START_SECONDS = 120.0
_TAIL_BYTES = 64 * 1024
_TEXT_LENGTH = 1500
# From closing its connection to having ended: a crashing process writes its stack trace meanwhile.
_DYING_SECONDS = 2.0


class ChildDiedError(TunebookError):
    """The child ended by itself; the text says how, with the end of its stderr."""


class ChildTimeoutError(TunebookError):
    """The child did not answer in time; it still runs."""


@dataclass(frozen=True)
class ChildReady:
    """A child's first message: it has loaded what it needs."""


@dataclass(frozen=True)
class ChildCannotStart:
    """A child's only message: why it cannot work, in one line."""

    text: str


class ChildProcess:
    """A module of ours run as a process of its own, with a connection to it.

    It has its own session, so that Ctrl-C on the terminal reaches only the parent, and ends when
    the parent's end of the connection is closed, be it by the parent's death. `folder` becomes its
    current folder, and holds its temporary files, which `close` removes: a process that is killed
    removes none.
    """

    def __init__(self, module: str, folder: Path) -> None:
        self._temporary = tempfile.mkdtemp(prefix="process-", dir=folder)
        ours, theirs = socketpair()
        self._stderr = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # closed by close()
        # Appending, so that forget_output may truncate what the child goes on writing to.
        fcntl.fcntl(self._stderr, fcntl.F_SETFL, os.O_APPEND)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._stderr,
                stderr=self._stderr,
                cwd=folder,
                env=os.environ | {"TMPDIR": self._temporary},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self.connection: Connection[Any, Any] = Connection(ours.detach())

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Waits until the child has loaded what it needs. Raises TunebookError with why it cannot
        work, ChildDiedError, or ChildTimeoutError after `START_SECONDS`."""
        message = self.receive(START_SECONDS)
        if isinstance(message, ChildCannotStart):
            raise TunebookError(message.text)
        assert isinstance(message, ChildReady)

    def send(self, message: Any) -> None:
        """Hands a message to the child. Raises ChildDiedError."""
        try:
            self.connection.send(message)
        except OSError as error:
            raise ChildDiedError(self.death()) from error

    def receive(self, timeout: float | None = None) -> Any:
        """The child's next message. Raises ChildDiedError, or ChildTimeoutError after `timeout`."""
        try:
            if not self.connection.poll(timeout):
                raise ChildTimeoutError(f"no answer from process {self.pid} within {timeout:g} s")
            return self.connection.recv()
        except (EOFError, OSError) as error:
            raise ChildDiedError(self.death()) from error

    def forget_output(self) -> None:
        """What the child wrote so far belongs to earlier work."""
        os.ftruncate(self._stderr.fileno(), 0)

    def output(self) -> str:
        """The end of what the child wrote to its outputs."""
        size = os.fstat(self._stderr.fileno()).st_size
        start = max(0, size - _TAIL_BYTES)
        return os.pread(self._stderr.fileno(), _TAIL_BYTES, start).decode(errors="replace")

    def death(self) -> str:
        """How the child ended, with the end of its stderr; kills it if it does not end."""
        deadline = time.monotonic() + _DYING_SECONDS
        while not self._has_ended() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.kill()
        code = self._process.returncode
        how = f"was ended by {_signal_name(-code)}" if code < 0 else f"exited with code {code}"
        said = self._said()
        return f"the process {how}: {said}" if said else f"the process {how} and said nothing"

    def kill(self) -> None:
        """Ends the child and everything that it started."""
        if self._process.returncode is None:
            # Before the child is reaped, since its number may be another's afterwards.
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()

    def close(self) -> None:
        """Kills the child and lets go of everything."""
        self.kill()
        self.connection.close()
        self._stderr.close()
        shutil.rmtree(self._temporary, ignore_errors=True)

    def _has_ended(self) -> bool:
        if self._process.returncode is not None:
            return True
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            return os.waitid(os.P_PID, self.pid, flags) is not None
        except ChildProcessError:  # another part of this program waits for every child
            return True

    def _said(self) -> str:
        text = " ".join(self.output().split())
        # What LLVM says before it aborts is followed by a long stack trace.
        fatal = text.find("LLVM ERROR")
        return text[fatal:][:_TEXT_LENGTH] if fatal >= 0 else text[-_TEXT_LENGTH:]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


Answer = Callable[[Any], None]
Handler = Callable[[Any, Answer], None]


def serve_parent(start: Callable[[], Handler]) -> None:
    """Runs in the child: answers the parent's messages one after the other until it hangs up.

    `start` loads what is needed and gives the handler, which is called with each message and a
    function that sends an answer. Never returns. A thread of its own reads the messages, so that
    the child ends with its parent even while the handler is busy in C++.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)
    connection = Connection(descriptor)
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read_messages, args=(connection, messages), daemon=True).start()
    try:
        handler = start()
    except TunebookError as error:
        connection.send(ChildCannotStart(str(error)))
        raise SystemExit(1) from None
    connection.send(ChildReady())
    while True:
        handler(messages.get(), connection.send)


def _read_messages(connection: Connection, messages: queue.SimpleQueue[Any]) -> None:
    try:
        while True:
            messages.put(connection.recv())
    except (EOFError, OSError):
        os._exit(0)
