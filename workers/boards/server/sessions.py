"""A client's session: a process of its own, ended with everything that it started."""

from __future__ import annotations

import logging
import multiprocessing

# Not when they are first used: the user that is served as may not be able to read them.
import multiprocessing.connection
import multiprocessing.popen_fork
import os
import resource
import select
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import tvm_ffi
from tvm.rpc import _ffi_api as rpc_ffi
from tvm.rpc import server as rpc_server

from tunebook.workers.boards.server.exit_reasons import exit_text
from tunebook.workers.boards.server.handshake import Client
from tunebook.workers.boards.server.parent_process import die_with_parent
from tunebook.workers.boards.server.tracker_link import BEAT_SECONDS
from tunebook.workers.boards.server.trial_calls import TrialCalls

logger = logging.getLogger("tunebook.board")

# What the text of the error begins with that a client gets for a session that was ended.
SESSION_ENDED = "BoardSessionEnded"
# What the text of the error has for a file that the board cannot keep.
FILE_NOT_KEPT = "BoardFileNotKept"
# How long a session may go on after its client has hung up.
ABANDONED_SECONDS = 3.0


def serve_session(
    client: Client,
    work_folder: Path | None,
    *,
    beat: Callable[[], None],
    leave_server: Callable[[], None],
) -> None:
    """Serve a client until its session ends, or has to be ended.

    `beat` is called every BEAT_SECONDS meanwhile; `leave_server` once in the session's own
    process, to close there what is the server's alone.
    """
    # Files of one session must not meet those of another, and go when it ends.
    folder = Path(tempfile.mkdtemp(prefix="session-", dir=work_folder))
    fork = multiprocessing.get_context("fork")
    session = fork.Process(target=_session, args=(client, folder, leave_server))
    session.start()
    try:
        ended = _watch(session, client, beat)
    finally:
        if session.pid is not None:
            _kill_group(session.pid)
        session.join()
        shutil.rmtree(folder, ignore_errors=True)
    if ended is not None:
        logger.warning("session ended: %s", ended)
        _tell(client.connection, ended)


def _watch(
    session: multiprocessing.process.BaseProcess, client: Client, beat: Callable[[], None]
) -> str | None:
    """Wait for the session; None when it ended as it should, else why it was ended."""
    began = time.monotonic()
    left_at: float | None = None
    while True:
        waited = time.monotonic() - began
        if client.limit is not None and waited >= client.limit:
            return f"its time limit of {client.limit:g} s has passed"
        remaining = BEAT_SECONDS if client.limit is None else client.limit - waited
        session.join(min(BEAT_SECONDS, remaining))
        if session.exitcode is not None:
            return exit_text(session.exitcode)
        if not _has_hung_up(client.connection):
            left_at = None
        elif left_at is None:
            left_at = time.monotonic()
        elif time.monotonic() - left_at > ABANDONED_SECONDS:
            return "its client hung up while a kernel was running"
        beat()


def _session(client: Client, folder: Path, leave_server: Callable[[], None]) -> None:
    """Runs in the session's own process: answer calls until the client hangs up."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setpgid(0, 0)
    die_with_parent()
    # A crashing kernel is an everyday event here; its core dumps would fill the board.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    leave_server()
    os.chdir(folder)
    files = _SessionFolder(folder)
    rpc_server._server_env(None, files)
    # TVM's own says nothing where a full disk takes a part of a file: the kernel looked broken.
    tvm_ffi.register_global_func("tvm.rpc.server.upload", files.keep, override=True)
    TrialCalls(files.keep).register()
    rpc_ffi.ServerLoop(client.connection.fileno())


class _SessionFolder:
    """Where a session's uploads go, in the form in which TVM's server asks for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.libs: list[object] = []

    def relpath(self, name: str) -> str:
        return str(self._folder / name)

    def keep(self, name: str, content: bytes) -> None:
        """Stores a file of the client's. Raises RuntimeError where there is no room for it."""
        try:
            (self._folder / name).write_bytes(content)
        except OSError as error:
            raise RuntimeError(
                f"{FILE_NOT_KEPT}: {error.strerror}; make room where its temporary files lie"
            ) from None


def _kill_group(pid: int) -> None:
    for kill in (os.killpg, os.kill):  # the group may not exist yet
        try:
            kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _has_hung_up(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


def _tell(connection: socket.socket, reason: str) -> None:
    if not _has_hung_up(connection):
        rpc_ffi.ReturnException(connection.fileno(), f"{SESSION_ENDED}: {reason}")
