"""The process on a board: a TVM RPC server that outlives the kernels it runs.

The server that TVM brings ends its listening thread when a session's process dies by a signal, so
that one crashing kernel takes the board off the tracker for good. This one speaks the same
protocol with TVM's own message functions, replaces nothing inside TVM, and keeps serving:

- a session that crashes, exceeds the client's time limit, or whose client is gone, is ended with
  everything it started; a client that still waits is told why (`SESSION_ENDED`);
- while idle and while serving it raises a beat counter at the tracker, by which a supervisor on
  another clock tells a living server from a hung one.

This file stands alone and needs nothing but TVM's runtime: it also runs where Tunebook is not
installed, as `python board_server.py --tracker HOST:PORT --key CLASS`.
"""

from __future__ import annotations

import os

if __name__ == "__main__":
    # A board only runs: without its compiler TVM starts in half the time. Only before importing
    # tvm, and only in the server's own process.
    os.environ["TVM_USE_RUNTIME_LIB"] = "1"

import argparse
import ctypes
import gc
import json
import logging
import mmap
import multiprocessing
import resource
import secrets
import select
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm.rpc import _ffi_api as rpc_ffi
from tvm.rpc import base as rpc
from tvm.rpc import server as rpc_server

logger = logging.getLogger("tunebook.board")

# What the text of the error begins with that a client gets for a session that was ended.
SESSION_ENDED = "BoardSessionEnded"
BEAT_SECONDS = 0.5
# How long a client may take from asking the tracker for the board to connecting to it.
UNUSED_KEY_SECONDS = 6.0
HANDSHAKE_SECONDS = 10.0
TRACKER_SECONDS = 10.0
# How long a session may go on after its client has hung up.
ABANDONED_SECONDS = 3.0
PR_SET_PDEATHSIG = 1
CPU = 1  # kDLCPU
# Of so many instructions, what differs between the first call and others is next to nothing.
SURE_INSTRUCTIONS = 4_000_000
# More takes the emulator seconds.
MOST_INSTRUCTIONS = 400_000_000
# A kernel is called so often more that it makes up so many instructions.
MORE_INSTRUCTIONS = 2_000_000
MOST_CALLS = 20
SETTLING_COUNTS = 4
NOTHING = "tunebook.board.nothing"


@dataclass(frozen=True)
class ServerOptions:
    """What a server is told: where the tracker is, what the board is called, where to listen."""

    tracker: tuple[str, int]
    board_class: str
    name: str
    server_id: str
    host: str
    port: int
    advertise: str | None
    work_folder: Path | None
    parent_pid: int | None
    count_file: int | None


def follow_parent(parent_pid: int) -> None:
    """Die as soon as the thread that started this process ends; exit at once if it has."""
    _die_with_parent()
    if os.getppid() != parent_pid:
        raise SystemExit(f"the process {parent_pid} that started this one is gone")


def _die_with_parent() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class TrackerLink:
    """The server's connection to its tracker: registers the board, offers it, raises the beat.

    Every method raises OSError when the tracker is gone; the link is then of no further use.
    """

    def __init__(self, options: ServerOptions, port: int) -> None:
        self._options = options
        self._port = port
        self._beat = 0
        self._socket = socket.create_connection(options.tracker, timeout=TRACKER_SECONDS)
        try:
            self._socket.sendall(struct.pack("<i", rpc.RPC_TRACKER_MAGIC))
            if struct.unpack("<i", rpc.recvall(self._socket, 4))[0] != rpc.RPC_TRACKER_MAGIC:
                raise OSError("what answers at the tracker's address is no TVM RPC tracker")
            self.beat(serving=False)
        except BaseException:
            self.close()
            raise

    def beat(self, *, serving: bool) -> None:
        """Say that this server lives; a supervisor sees the number move at the tracker."""
        self._beat += 1
        server = {
            "id": self._options.server_id,
            "name": self._options.name,
            "pid": os.getpid(),
            "beat": self._beat,
            "serving": serving,
            "cores": len(os.sched_getaffinity(0)),
        }
        info = {
            "key": f"server:{self._options.board_class}",
            "addr": [self._options.advertise, self._port],
            "tunebook": server,
        }
        self._ask([rpc.TrackerCode.UPDATE_INFO, info])

    def offer(self, match_key: str) -> None:
        """Put the board into the queue of its class, for the client that shows `match_key`."""
        address = self._options.advertise
        board_class = self._options.board_class
        self._ask([rpc.TrackerCode.PUT, board_class, (self._port, match_key), address])

    def is_waiting(self, match_key: str) -> bool:
        """Whether the board stands in the queue, taken by no client yet."""
        waiting = self._exchange([rpc.TrackerCode.GET_PENDING_MATCHKEYS])
        return isinstance(waiting, list) and match_key in waiting

    def close(self) -> None:
        self._socket.close()

    def _ask(self, message: list[object]) -> None:
        if self._exchange(message) != rpc.TrackerCode.SUCCESS:
            raise OSError(f"the tracker refused {message!r}")

    def _exchange(self, message: list[object]) -> object:
        rpc.sendjson(self._socket, message)
        try:
            return rpc.recvjson(self._socket)
        except (ValueError, struct.error) as error:
            raise OSError(f"the tracker's answer cannot be read: {error}") from error


@dataclass(frozen=True)
class Client:
    """A client that showed the right key; `limit` is its session's time limit in seconds."""

    connection: socket.socket
    limit: float | None


class BoardServer:
    """Listens, serves one session at a time in a process of its own, and is never done."""

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        family = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)[0][0]
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((options.host, options.port))
        self._listener.listen()
        self._link: TrackerLink | None = None

    def serve_forever(self) -> None:
        while True:
            try:
                if self._link is None:
                    self._link = TrackerLink(self._options, self._listener.getsockname()[1])
                client = self._next_client(self._link)
            except OSError as error:
                logger.warning("tracker %s:%d: %s; trying again", *self._options.tracker, error)
                self._drop_link()
                time.sleep(BEAT_SECONDS)
                continue
            with client.connection:
                self._serve(client)

    def _next_client(self, link: TrackerLink) -> Client:
        match_key = self._new_offer(link)
        taken_at: float | None = None
        while True:
            ready, _, _ = select.select([self._listener], [], [], BEAT_SECONDS)
            if ready:
                client = self._greet(match_key)
                if client is not None:
                    return client
            link.beat(serving=False)
            now = time.monotonic()
            if link.is_waiting(match_key):
                taken_at = None
            elif taken_at is None:
                taken_at = now
            elif now - taken_at > UNUSED_KEY_SECONDS:
                logger.info("a client took this board and never came; offering it again")
                match_key, taken_at = self._new_offer(link), None

    def _new_offer(self, link: TrackerLink) -> str:
        # Not rpc.random_key: it draws from 2**32 times a guessable generator's state.
        match_key = f"{self._options.board_class}:{secrets.token_hex(16)}"
        link.offer(match_key)
        return match_key

    def _greet(self, match_key: str) -> Client | None:
        connection, peer = self._listener.accept()
        try:
            # A peer that connects and stays silent must not hold the board.
            connection.settimeout(HANDSHAKE_SECONDS)
            client = self._shake_hands(connection, match_key)
        except (OSError, ValueError, struct.error) as error:
            logger.warning("%s: handshake failed: %s", peer, error)
            client = None
        if client is None:
            connection.close()
        return client

    def _shake_hands(self, connection: socket.socket, match_key: str) -> Client | None:
        magic, length = struct.unpack("<ii", rpc.recvall(connection, 8))
        if magic != rpc.RPC_MAGIC or not 0 < length < 4096:
            return None
        shown, *options = rpc.recvall(connection, length).decode("utf-8").split()
        if shown != f"client:{match_key}":
            connection.sendall(struct.pack("<i", rpc.RPC_CODE_MISMATCH))
            return None
        name = f"server:{self._options.board_class}".encode()
        connection.sendall(struct.pack("<ii", rpc.RPC_CODE_SUCCESS, len(name)) + name)
        connection.settimeout(None)
        # Finds out within a minute that a client's machine is gone without a word.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        return Client(connection, _time_limit(options))

    def _serve(self, client: Client) -> None:
        # Files of one session must not meet those of another, and go when it ends.
        folder = Path(tempfile.mkdtemp(prefix="session-", dir=self._options.work_folder))
        fork = multiprocessing.get_context("fork")
        session = fork.Process(target=self._session, args=(client, folder))
        session.start()
        try:
            ended = self._watch(session, client)
        finally:
            if session.pid is not None:
                _kill_group(session.pid)
            session.join()
            shutil.rmtree(folder, ignore_errors=True)
        if ended is not None:
            logger.warning("session ended: %s", ended)
            _tell(client.connection, ended)

    def _watch(self, session: multiprocessing.process.BaseProcess, client: Client) -> str | None:
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
                return _exit_text(session.exitcode)
            if not _has_hung_up(client.connection):
                left_at = None
            elif left_at is None:
                left_at = time.monotonic()
            elif time.monotonic() - left_at > ABANDONED_SECONDS:
                return "its client hung up while a kernel was running"
            self._beat_serving()

    def _beat_serving(self) -> None:
        if self._link is None:
            return
        try:
            self._link.beat(serving=True)
        except OSError as error:
            # The session goes on without a tracker; the board registers anew when it ends.
            logger.warning("tracker: %s", error)
            self._drop_link()

    def _drop_link(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _session(self, client: Client, folder: Path) -> None:
        """Runs in the session's own process: answer calls until the client hangs up."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setpgid(0, 0)
        _die_with_parent()
        # A crashing kernel is an everyday event here; its core dumps would fill the board.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self._listener.close()
        self._drop_link()
        os.chdir(folder)
        rpc_server._server_env(None, _SessionFolder(folder))
        rpc_ffi.ServerLoop(client.connection.fileno())


class _SessionFolder:
    """Where a session's uploads go, in the form in which TVM's server asks for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.libs: list[object] = []

    def relpath(self, name: str) -> str:
        return str(self._folder / name)


def _time_limit(options: Iterable[str]) -> float | None:
    for option in options:
        name, _, value = option.partition("=")
        if name == "-timeout":
            return float(value)
    return None


def _kill_group(pid: int) -> None:
    for kill in (os.killpg, os.kill):  # the group may not exist yet
        try:
            kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _exit_text(code: int) -> str | None:
    if code == 0:
        return None
    if code < 0:
        number = signal.Signals(-code)
        return f"its process was ended by {number.name} ({signal.strsignal(number)})"
    return f"its process failed with exit code {code}"


def _has_hung_up(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


def _tell(connection: socket.socket, reason: str) -> None:
    if not _has_hung_up(connection):
        rpc_ffi.ReturnException(connection.fileno(), f"{SESSION_ENDED}: {reason}")


def board_state(name: str) -> str:
    """JSON of what may disturb a measurement: load, governor, frequency, temperature.

    `load` is that of the last minute; frequency is in kHz and temperature in degrees Celsius, of
    the first core and of the hottest zone; null where the board does not tell.
    """
    cpu = Path("/sys/devices/system/cpu/cpu0/cpufreq")
    zones = Path("/sys/class/thermal").glob("thermal_zone*/temp")
    temperatures = [value for zone in zones if (value := _number(zone)) is not None]
    return json.dumps(
        {
            "name": name,
            "load": os.getloadavg()[0],
            "governor": _text(cpu / "scaling_governor"),
            "frequency_khz": _number(cpu / "scaling_cur_freq"),
            "temperature_c": max(temperatures) / 1000 if temperatures else None,
        }
    )


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:
        return None


def _number(path: Path) -> int | None:
    try:
        return int(_text(path) or "")
    except ValueError:
        return None


class InstructionCounter:
    """Counts a kernel's instructions, where an emulator keeps count of all that it executes.

    `file` is the descriptor of a page that begins with the count so far, as an unsigned 64-bit
    number of this process alone (count_instructions.c).
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._around: dict[int, int] = {}
        tvm_ffi.register_global_func(NOTHING, lambda *_: None, override=True)

    def count(self, module: Any, name: str, *arguments: Any) -> float:
        """The instructions of one call of a module's function, after a few others.

        What surrounds calls costs instructions too. Of a large kernel's calls that is taken off;
        those of a small one are counted twice, once with more of them, and the difference is
        theirs alone.
        """
        gc.disable()  # it would cost whichever call it happens in
        first = self._spent(module, name, 1, arguments)
        if first > MOST_INSTRUCTIONS:
            return (first - self._spent_around(arguments)) / 2
        # Again: what is done for the first time costs more.
        few = self._spent(module, name, 1, arguments)
        if few > SURE_INSTRUCTIONS:
            return (few - self._spent_around(arguments)) / 2
        few = self._settled(module, name, 1, arguments, few)
        more = max(1, min(MOST_CALLS, MORE_INSTRUCTIONS // few))
        return (self._settled(module, name, 1 + more, arguments) - few) / more

    def _spent_around(self, arguments: Sequence[Any]) -> int:
        """What surrounds calls with so many arguments, whatever is called."""
        count = len(arguments)
        if count not in self._around:
            few, more = (self._settled(None, NOTHING, calls, arguments) for calls in (1, 3))
            self._around[count] = few - (more - few)
        return self._around[count]

    def _settled(
        self, module: Any, name: str, calls: int, arguments: Sequence[Any], known: int | None = None
    ) -> int:
        """What is spent again and again, or the least: now and then the guest does more, such as
        asking for memory."""
        seen = [] if known is None else [known]
        for _ in range(SETTLING_COUNTS):
            spent = self._spent(module, name, calls, arguments)
            if spent in seen:
                return spent
            seen.append(spent)
        return min(seen)

    def _spent(self, module: Any, name: str, calls: int, arguments: Sequence[Any]) -> int:
        """The instructions of 1 + calls, and of what surrounds them."""
        # TVM's loop around a kernel is native code, of a few instructions a call.
        evaluator = tvm_ffi.get_global_func("runtime.RPCTimeEvaluator")
        call = evaluator(module, name, CPU, 0, calls, 1, 0, 0, 0, 1, 0, "")
        with (
            mmap.mmap(self._file, mmap.PAGESIZE, prot=mmap.PROT_READ) as page,
            memoryview(page).cast("Q") as counts,
        ):
            before = counts[0]
            call(*arguments)
            return counts[0] - before


def _prepare_runtime(options: ServerOptions) -> None:
    """Load what the compiler-less runtime leaves out, and what clients may ask this board."""
    name = options.name
    extra = Path(tvm.__file__).parent / "lib" / "libtvm_runtime_extra.so"
    ctypes.CDLL(str(extra), ctypes.RTLD_GLOBAL)
    tvm_ffi.register_global_func("tunebook.board.name", lambda: name, override=True)
    tvm_ffi.register_global_func("tunebook.board.state", lambda: board_state(name), override=True)
    if options.count_file is not None:
        count = InstructionCounter(options.count_file).count
        tvm_ffi.register_global_func("tunebook.board.count_instructions", count, override=True)


def _options(arguments: list[str]) -> ServerOptions:
    parser = argparse.ArgumentParser(prog="board_server", description="Serve a board over TVM RPC.")
    parser.add_argument("--tracker", required=True, metavar="HOST:PORT")
    parser.add_argument("--key", required=True, help="the board's class at the tracker")
    parser.add_argument("--name", default=socket.gethostname(), help="what records call the board")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=int, default=0, help="the port to listen on (0: any)")
    parser.add_argument("--advertise", help="the address that clients reach this board under")
    parser.add_argument("--work-folder", type=Path, help="where the sessions' files go meanwhile")
    parser.add_argument("--server-id", default=secrets.token_hex(8), help=argparse.SUPPRESS)
    parser.add_argument("--parent-pid", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--count-file", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    tracker_host, _, tracker_port = given.tracker.rpartition(":")
    if not tracker_host or not tracker_port.isdigit():
        parser.error(f"--tracker {given.tracker}: expected HOST:PORT, as in 192.0.2.1:9190")
    if not given.key or any(character.isspace() for character in given.key):
        parser.error(f"--key {given.key!r}: a board class has no spaces")
    listens_everywhere = given.host in ("0.0.0.0", "::")
    return ServerOptions(
        tracker=(tracker_host.strip("[]"), int(tracker_port)),
        board_class=given.key,
        name=given.name,
        server_id=given.server_id,
        host=given.host,
        port=given.port,
        # None: the tracker takes the address that the server's connection comes from.
        advertise=given.advertise or (None if listens_everywhere else given.host),
        work_folder=given.work_folder,
        parent_pid=given.parent_pid,
        count_file=given.count_file,
    )


def main(arguments: list[str] | None = None) -> None:
    options = _options(sys.argv[1:] if arguments is None else arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    rpc_server.logger.setLevel(logging.WARNING)
    if options.parent_pid is not None:
        follow_parent(options.parent_pid)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if not options.host.startswith("127.") and options.host not in ("localhost", "::1"):
        logger.warning(
            "listening on %s: the RPC protocol asks nobody who they are and runs what it is sent; "
            "keep this address inside a network that you trust",
            options.host,
        )
    _prepare_runtime(options)
    BoardServer(options).serve_forever()


if __name__ == "__main__":
    main()
