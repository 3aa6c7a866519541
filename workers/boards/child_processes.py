"""Processes that end with this one, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

STOP_SECONDS = 3.0


class _Starter:
    """One thread that starts every child, and lives as long as this process.

    The kernel sends the signal that makes a child die with its parent when the *thread* that
    started it ends, so no short-lived thread may do it.
    """

    def __init__(self) -> None:
        self._thread = self._new_thread()
        os.register_at_fork(after_in_child=self._after_fork)

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
        pass_fds: Sequence[int],
    ) -> subprocess.Popen[bytes]:
        def start() -> subprocess.Popen[bytes]:
            with log.open("ab") as output:
                return subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=dict(environment),
                    cwd=folder,
                    pass_fds=tuple(pass_fds),
                    # Ctrl-C is for the parent, which then stops its children in order.
                    start_new_session=True,
                )

        return self._thread.submit(start).result()

    def _after_fork(self) -> None:
        self._thread = self._new_thread()  # threads do not survive a fork

    @staticmethod
    def _new_thread() -> ThreadPoolExecutor:
        return ThreadPoolExecutor(max_workers=1, thread_name_prefix="child-starter")


_starter = _Starter()


def start_child(
    command: Sequence[str],
    *,
    folder: Path,
    log: Path,
    environment: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start `command` in `folder`, its output appended to `log`, in a process group of its own.

    The command must itself ask to die with its parent (server/parent_process.py). Raises OSError
    when it cannot be started.
    """
    environment = os.environ if environment is None else environment
    return _starter.run(command, environment, folder, log, pass_fds)


def stop_child(process: subprocess.Popen[bytes]) -> None:
    """End the child and its process group: asked first, killed after `STOP_SECONDS`."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    # What the child started and did not end itself.
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def log_tail(log: Path, lines: int = 5) -> str:
    """The last lines of a log, on one line, for an error message."""
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return "no log"
    kept = [line.strip() for line in text.splitlines() if line.strip()][-lines:]
    return " | ".join(kept) or "its log is empty"
