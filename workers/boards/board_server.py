"""The process on a board: a TVM RPC server that outlives the kernels it runs.

The server that TVM brings ends its listening thread when a session's process dies by a signal, so
that one crashing kernel takes the board off the tracker for good. This one speaks the same
protocol with TVM's own message functions, and keeps serving:

- a session that crashes, exceeds the client's time limit, or whose client is gone, is ended with
  everything it started; a client that still waits is told why (`SESSION_ENDED`);
- while idle and while serving it raises a beat counter at the tracker, by which a supervisor on
  another clock tells a living server from a hung one;
- beside it stands what its processor can run, so that code for another is never sent to it;
- on SIGUSR1 it leaves, after the session in hand;
- started by root, it serves as the user that `--run-as` names, with no other rights.

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
import fcntl
import gc
import ipaddress
import json
import logging
import mmap
import multiprocessing

# Not when they are first used: the user that is served as may not be able to read them.
import multiprocessing.connection
import multiprocessing.popen_fork
import platform
import pwd
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
from collections.abc import Iterable, Mapping, Sequence
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
# What the text of the error has for a file that the board cannot keep.
FILE_NOT_KEPT = "BoardFileNotKept"
BEAT_SECONDS = 0.5
# How long a client may take from asking the tracker for the board to connecting to it.
UNUSED_KEY_SECONDS = 6.0
# TVM's tracker keeps every offer of a connection until that ends.
MOST_OFFERS = 1000
HANDSHAKE_SECONDS = 10.0
TRACKER_SECONDS = 10.0
# How long a session may go on after its client has hung up.
ABANDONED_SECONDS = 3.0
PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38
SIOCGIFADDR = 0x8915
NO_USER = 2**32 - 1
EVERYWHERE = ("0.0.0.0", "::")
AT_HWCAP, AT_HWCAP2 = 16, 26
# CPU features by LLVM's names, and the bits by which Linux tells them in AT_HWCAP and AT_HWCAP2
# (its arch/arm64/include/uapi/asm/hwcap.h); LLVM's may need several.
AARCH64_FEATURES: Mapping[str, tuple[int, int]] = {
    "fp-armv8": (1 << 0, 0),
    "neon": (1 << 1, 0),
    "aes": (1 << 3 | 1 << 4, 0),
    "sha2": (1 << 5 | 1 << 6, 0),
    "crc": (1 << 7, 0),
    "lse": (1 << 8, 0),
    "fullfp16": (1 << 9 | 1 << 10, 0),
    "rdm": (1 << 12, 0),
    "jsconv": (1 << 13, 0),
    "complxnum": (1 << 14, 0),
    "rcpc": (1 << 15, 0),
    "ccpp": (1 << 16, 0),
    "sha3": (1 << 17 | 1 << 21, 0),
    "sm4": (1 << 18 | 1 << 19, 0),
    "dotprod": (1 << 20, 0),
    "sve": (1 << 22, 0),
    "fp16fml": (1 << 23, 0),
    "dit": (1 << 24, 0),
    "lse2": (1 << 25, 0),
    "rcpc-immo": (1 << 26, 0),
    "flagm": (1 << 27, 0),
    "ssbs": (1 << 28, 0),
    "sb": (1 << 29, 0),
    "pauth": (1 << 30 | 1 << 31, 0),
    "ccdp": (0, 1 << 0),
    "sve2": (0, 1 << 1),
    "sve-aes": (0, 1 << 2 | 1 << 3),
    "sve-bitperm": (0, 1 << 4),
    "sve-sha3": (0, 1 << 5),
    "sve-sm4": (0, 1 << 6),
    "altnzcv": (0, 1 << 7),
    "fptoint": (0, 1 << 8),
    "f32mm": (0, 1 << 10),
    "f64mm": (0, 1 << 11),
    "i8mm": (0, 1 << 13),
    "bf16": (0, 1 << 14),
    "rand": (0, 1 << 16),
    "bti": (0, 1 << 17),
    "mte": (0, 1 << 18),
    "sme": (0, 1 << 23),
    "sme-i16i64": (0, 1 << 24),
    "sme-f64f64": (0, 1 << 25),
    "sme-fa64": (0, 1 << 30),
    "wfxt": (0, 1 << 31),
    "cssc": (0, 1 << 34),
    "sve2p1": (0, 1 << 36),
    "sme2": (0, 1 << 37),
    "sme2p1": (0, 1 << 38),
    "sme-b16b16": (0, 1 << 41),
    "sme-f16f16": (0, 1 << 42),
    "mops": (0, 1 << 43),
    "hbc": (0, 1 << 44),
    "sve-b16b16": (0, 1 << 45),
    "rcpc3": (0, 1 << 46),
    "lut": (0, 1 << 49),
    "faminmax": (0, 1 << 50),
}
# CPU features by LLVM's names, and by the kernel's in /proc/cpuinfo.
X86_FEATURES: Mapping[str, str] = {
    "cmov": "cmov",
    "cx16": "cx16",
    "sahf": "lahf_lm",
    "popcnt": "popcnt",
    "movbe": "movbe",
    "sse": "sse",
    "sse2": "sse2",
    "sse3": "pni",
    "ssse3": "ssse3",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "sse4a": "sse4a",
    "avx": "avx",
    "avx2": "avx2",
    "f16c": "f16c",
    "fma": "fma",
    "fma4": "fma4",
    "xop": "xop",
    "tbm": "tbm",
    "lzcnt": "abm",
    "bmi": "bmi1",
    "bmi2": "bmi2",
    "adx": "adx",
    "aes": "aes",
    "pclmul": "pclmulqdq",
    "sha": "sha_ni",
    "vaes": "vaes",
    "vpclmulqdq": "vpclmulqdq",
    "gfni": "gfni",
    "rdrnd": "rdrand",
    "rdseed": "rdseed",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512cd": "avx512cd",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512ifma": "avx512ifma",
    "avx512vbmi": "avx512vbmi",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512vnni": "avx512_vnni",
    "avx512bitalg": "avx512_bitalg",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "avx512vp2intersect": "avx512_vp2intersect",
    "avxvnni": "avx_vnni",
    "avxvnniint8": "avx_vnni_int8",
    "avxvnniint16": "avx_vnni_int16",
    "avxneconvert": "avx_ne_convert",
    "avxifma": "avx_ifma",
    "amx-tile": "amx_tile",
    "amx-int8": "amx_int8",
    "amx-bf16": "amx_bf16",
    "amx-fp16": "amx_fp16",
    "amx-complex": "amx_complex",
}
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
    """What a server is told: where the tracker is, what the board is called, where to listen, and
    as which user and group, by their numbers, to serve (None: as it was started)."""

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
    run_as: tuple[int, int] | None


class MeansEverywhereError(ValueError):
    """All addresses of this machine, where nobody has asked for them in so many words."""


def listening_address(given: str) -> str:
    """The address to listen on: the one that is given, or that of the network interface that is.

    Raises ValueError, in words, for what is neither and for an interface without an address, and
    MeansEverywhereError for another spelling of all addresses of this machine.
    """
    if given in EVERYWHERE:
        return given
    interfaces = [name for _, name in socket.if_nameindex()]
    if given in interfaces:
        return _interface_address(given)
    try:
        found = socket.getaddrinfo(given or "*", None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise ValueError(
            f"{given!r} is no address of this machine and none of its network interfaces, which "
            f"are {', '.join(interfaces)}"
        ) from None
    address = str(next((one for one in found if one[0] is socket.AF_INET), found[0])[4][0])
    if ipaddress.ip_address(address.partition("%")[0]).is_unspecified:
        raise MeansEverywhereError(
            f"{given!r} means all addresses of this machine; name one, or a network interface "
            f"({', '.join(interfaces)}), or say {EVERYWHERE[0]} if that is meant"
        )
    return address


def _interface_address(name: str) -> str:
    """Its IPv4 address, else its IPv6 one that is not of the link alone."""
    request = struct.pack("256s", name.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = fcntl.ioctl(any_socket.fileno(), SIOCGIFADDR, request)
            return socket.inet_ntoa(answer[20:24])
        except OSError:
            pass
    for line in (_text(Path("/proc/net/if_inet6")) or "").splitlines():
        digits, *_, of = line.split()
        address = ipaddress.ip_address(bytes.fromhex(digits))
        if of == name and not address.is_link_local:
            return str(address)
    raise ValueError(
        f"the network interface {name} has no address; bring it up, or name an address"
    )


def warn_where_everywhere(address: str) -> None:
    """Says in one line what it means to listen on all addresses of this machine."""
    if address in EVERYWHERE:
        logger.warning(
            "listening on %s, all addresses of this machine: the RPC protocol asks nobody who they "
            "are and runs what it is sent; keep all of its networks such as you trust",
            address,
        )


def cpu_features() -> tuple[str, ...]:
    """What this processor can run, by LLVM's names, sorted; of those that the system tells.

    Inside an emulator what that one emulates: it answers for the vector of the process, while
    /proc/cpuinfo may be that of the machine around it. Empty where nothing is known.
    """
    machine = _machine()
    if machine == "aarch64":
        return aarch64_features(*(_hardware_capabilities(kind) for kind in (AT_HWCAP, AT_HWCAP2)))
    if machine == "x86_64":
        return x86_features(_text(Path("/proc/cpuinfo")) or "")
    return ()


def aarch64_features(first: int, second: int) -> tuple[str, ...]:
    """Features by the two words of hardware capabilities."""
    return tuple(
        sorted(
            name
            for name, (ones, others) in AARCH64_FEATURES.items()
            if first & ones == ones and second & others == others
        )
    )


def x86_features(cpuinfo: str) -> tuple[str, ...]:
    """Features by the text of /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            flags = frozenset(value.split())
            return tuple(sorted(one for one, flag in X86_FEATURES.items() if flag in flags))
    return ()


def machine_triple() -> str:
    """The triple of code that this machine runs, as a target names it."""
    machine = _machine()
    return f"{machine}-linux-gnu{'eabihf' if machine.startswith('arm') else ''}"


def boot_id() -> str:
    """What tells the kernel that runs here from every other, by one of its starts: the same for all
    of its containers, and empty where it does not tell."""
    return _text(Path("/proc/sys/kernel/random/boot_id")) or ""


def _machine() -> str:
    machine = platform.machine().lower()
    # A 64-bit kernel may run a 32-bit user space, to which code has to fit.
    if machine in ("aarch64", "arm64") and sys.maxsize < 2**32:
        return "armv7l"
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


def _hardware_capabilities(kind: int) -> int:
    ask = ctypes.CDLL(None).getauxval
    ask.restype, ask.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    return int(ask(kind))


def take_rights_of(user: int, group: int) -> None:
    """Go on as this user and nobody else, for good: with its group alone, and without a way to more
    rights. Raises OSError where this process may not."""
    os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


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
        self.offers = 0
        self._machine = {
            "features": cpu_features(),
            "mtriple": machine_triple(),
            "boot": boot_id(),
        }
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
            **self._machine,
        }
        info = {
            "key": f"server:{self._options.board_class}",
            "addr": [self._options.advertise, self._port],
            "tunebook": server,
        }
        self._ask([rpc.TrackerCode.UPDATE_INFO, info])

    def offer(self, match_key: str) -> None:
        """Put the board into the queue of its class, for the client that shows `match_key`."""
        self.offers += 1
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
    """Listens, and serves one session at a time in a process of its own, until it is to leave."""

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self._leaving = False
        family = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)[0][0]
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((options.host, options.port))
        self._listener.listen()
        self._link: TrackerLink | None = None

    def leave(self) -> None:
        """Be done after the session in hand; may be called by a signal."""
        self._leaving = True

    def serve(self) -> None:
        """Serve session after session. Returns once `leave` was called and no session is left."""
        while not self._leaving:
            try:
                if self._link is None or self._link.offers >= MOST_OFFERS:
                    self._register()
                client = self._next_client()
                if client is None:
                    break
            except OSError as error:
                logger.warning("tracker %s:%d: %s; trying again", *self._options.tracker, error)
                self._drop_link()
                time.sleep(BEAT_SECONDS)
                continue
            with client.connection:
                self._serve(client)
        self._drop_link()
        self._listener.close()

    def _register(self) -> None:
        """Over a connection of its own, before the last one ends: the board is always there."""
        link = TrackerLink(self._options, self._listener.getsockname()[1])
        self._drop_link()
        self._link = link

    def _next_client(self) -> Client | None:
        """The next client that has been given this board; None where it is to leave before."""
        link = self._link
        assert link is not None, "registered by now"
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
                if self._leaving:
                    return None
                taken_at = None
            elif taken_at is None:
                taken_at = now
            elif now - taken_at > UNUSED_KEY_SECONDS:
                if self._leaving:
                    return None
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
            client = self._shake_hands(connection, match_key)
        except (OSError, ValueError, struct.error) as error:
            logger.warning("%s: handshake failed: %s", peer, error)
            client = None
        if client is None:
            connection.close()
        return client

    def _shake_hands(self, connection: socket.socket, match_key: str) -> Client | None:
        deadline = time.monotonic() + HANDSHAKE_SECONDS
        magic, length = struct.unpack("<ii", _receive(connection, 8, deadline))
        if magic != rpc.RPC_MAGIC or not 0 < length < 4096:
            return None
        shown, *options = _receive(connection, length, deadline).decode("utf-8").split()
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
        files = _SessionFolder(folder)
        rpc_server._server_env(None, files)
        # TVM's own says nothing where a full disk takes a part of a file: the kernel looked broken.
        tvm_ffi.register_global_func("tvm.rpc.server.upload", files.keep, override=True)
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


def _receive(connection: socket.socket, count: int, deadline: float) -> bytes:
    """So many bytes, all of them by the deadline: whoever sends none, or one at a time, must not
    hold the board. Raises OSError."""
    received = b""
    while len(received) < count:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        more = connection.recv(count - len(received))
        if not more:
            raise OSError("it hung up")
        received += more
    return received


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
        return f"its process was ended by {signal_name(-code)} ({signal.strsignal(-code)})"
    return f"its process failed with exit code {code}"


def signal_name(number: int) -> str:
    """A signal's name; of those that are free for any use only the first and last have one."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


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
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to listen on, or the network interface that has it",
    )
    parser.add_argument("--port", type=int, default=0, help="the port to listen on (0: any)")
    parser.add_argument("--advertise", help="the address that clients reach this board under")
    parser.add_argument("--work-folder", type=Path, help="where the sessions' files go meanwhile")
    parser.add_argument("--run-as", metavar="USER", help="the user to serve as, started by root")
    parser.add_argument("--server-id", default=secrets.token_hex(8), help=argparse.SUPPRESS)
    parser.add_argument("--parent-pid", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--count-file", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    tracker_host, _, tracker_port = given.tracker.rpartition(":")
    if not tracker_host or not tracker_port.isdigit():
        parser.error(f"--tracker {given.tracker}: expected HOST:PORT, as in 192.0.2.1:9190")
    if not given.key or any(character.isspace() for character in given.key):
        parser.error(f"--key {given.key!r}: a board class has no spaces")
    try:
        host = listening_address(given.host)
        run_as = None if given.run_as is None else user_and_group(given.run_as)
    except ValueError as error:
        parser.error(str(error))
    return ServerOptions(
        tracker=(tracker_host.strip("[]"), int(tracker_port)),
        board_class=given.key,
        name=given.name,
        server_id=given.server_id,
        host=host,
        port=given.port,
        # None: the tracker takes the address that the server's connection comes from.
        advertise=given.advertise or (None if host in EVERYWHERE else host),
        work_folder=given.work_folder,
        parent_pid=given.parent_pid,
        count_file=given.count_file,
        run_as=run_as,
    )


def user_and_group(text: str) -> tuple[int, int]:
    """The numbers of a user and its group, given as its name or as `USER:GROUP` in numbers. Raises
    ValueError where there is no such user, and for root."""
    try:
        user, _, group = text.partition(":")
        known = pwd.getpwnam(text) if not group else None
        numbers = (known.pw_uid, known.pw_gid) if known else (int(user), int(group))
    except (KeyError, ValueError):
        raise ValueError(f"there is no user {text!r} here; make one (useradd --system)") from None
    if 0 in numbers:
        raise ValueError(f"the user {text!r} has root's rights; name one of its own")
    # The kernel takes -1, and the largest number, for `as it is`.
    if not all(0 < number < NO_USER for number in numbers):
        raise ValueError(f"the user {text!r} cannot be: numbers go from 1 to {NO_USER - 1}")
    return numbers


def main(arguments: list[str] | None = None) -> None:
    options = _options(sys.argv[1:] if arguments is None else arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    rpc_server.logger.setLevel(logging.WARNING)
    _prepare_runtime(options)
    _take_rights(options)
    if options.parent_pid is not None:
        # Only now: the kernel forgets it where a process changes its user.
        follow_parent(options.parent_pid)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    warn_where_everywhere(options.host)
    try:
        server = BoardServer(options)
    except OSError as error:
        sys.exit(f"nothing can listen on {options.host}, port {options.port}: {error.strerror}")
    signal.signal(signal.SIGUSR1, lambda *_: server.leave())
    server.serve()


def _take_rights(options: ServerOptions) -> None:
    if options.run_as is None:
        return
    try:
        take_rights_of(*options.run_as)
    except OSError as error:
        sys.exit(f"--run-as takes a start by root ({error.strerror}); start it as that user")


if __name__ == "__main__":
    main()
