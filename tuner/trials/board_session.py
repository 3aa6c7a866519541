"""One RPC session on one board: what a measuring process does there, and how it ended."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import tvm
from tvm import rpc

from tunebook.cache.errors import BoardError
from tunebook.cache.keys import WorkloadKey
from tunebook.tuner.splitting.program import ENTRY, Program
from tunebook.tuner.trials.board_tracker import BoardOffer, identity, request_board
from tunebook.tuner.trials.tensors import Array, byte_count, random_inputs, spoiled
from tunebook.tuner.trials.trials import BoardAddress, OpenedBoard
from tunebook.tuner.tvm_compat import BIG_CORES

_REFUSED_SECONDS = 0.5
# Inputs of this many programs, and bytes, are kept on the board.
_KEPT_PROGRAMS = 8
_KEPT_BYTES = 256 * 2**20
# Libraries stay loaded from measuring to verifying, which a round or two lie between.
_KEPT_LIBRARIES = 64


class BoardSession:
    """A board of a class, held until `close` or until `limit` seconds have passed.

    The board ends the session after `limit` seconds, whatever runs in it; `opened` is the board,
    and `opening_seconds` how long it took from its offer to answering. Opening one raises
    BoardError and nothing else; every method may raise what TVM raises when the session ends
    meanwhile.
    """

    def __init__(
        self, address: BoardAddress, *, num_cores: int, limit: float, board_timeout: float
    ) -> None:
        self._address = address
        self.limit = limit
        self._files = 0
        self._libraries: OrderedDict[Path, Any] = OrderedDict()
        self._arguments: OrderedDict[WorkloadKey, tuple[Program, list[Any]]] = OrderedDict()
        self._connect(num_cores, board_timeout)
        self.opening_seconds = time.monotonic() - self._began

    def _connect(self, num_cores: int, board_timeout: float) -> None:
        deadline = time.monotonic() + board_timeout
        refusal: BoardError | None = None
        while True:
            offer = self._request(max(0.01, deadline - time.monotonic()), refusal)
            try:
                self._open(offer, num_cores)
                return
            except Exception as error:  # the tracker offers a board that is gone for a while
                refusal = BoardError(
                    f"the board at {offer.host}:{offer.port} does not open a session "
                    f"({_first_line(error)}); start its board server again"
                )
                if time.monotonic() >= deadline:
                    raise refusal from error
                time.sleep(_REFUSED_SECONDS)

    def _request(self, seconds: float, refusal: BoardError | None) -> BoardOffer:
        try:
            return request_board(self._address, seconds)
        except BoardError as error:
            if refusal is None:
                raise
            raise refusal from error

    def _open(self, offer: BoardOffer, num_cores: int) -> None:
        self._host, self._port = offer.host, offer.port
        self._identity = offer.server.identity if offer.server is not None else None
        self._began = time.monotonic()
        self._session = rpc.connect(
            offer.host, offer.port, offer.match_key, session_timeout=self.limit
        )
        try:
            self._cores = 0
            self.use_cores(num_cores)
            self._state = self._function("tunebook.board.state")
            name = self._function("tunebook.board.name")
            self._count = None
            if self._address.emulated:
                self._count = self._function("tunebook.board.count_instructions")
            self.opened = self._describe(offer, str(name()) if name is not None else None)
        except Exception:
            self.close()
            raise

    def _describe(self, offer: BoardOffer, name: str | None) -> OpenedBoard:
        server = offer.server
        return OpenedBoard(
            board_class=self._address.board_class,
            name=name or f"{offer.host}:{offer.port}",
            host=offer.host,
            port=offer.port,
            server_id=server.server_id if server is not None else None,
            mtriple=server.mtriple if server is not None else "",
            features=server.features if server is not None else frozenset(),
            cores=server.cores if server is not None else None,
            state=self.state(),
        )

    def use_cores(self, num_cores: int) -> None:
        """Sets how many threads a kernel gets."""
        if num_cores != self._cores:
            self._session.get_function("runtime.config_threadpool")(BIG_CORES, num_cores)
            self._cores = num_cores

    @property
    def seconds_left(self) -> float:
        """Until the board ends this session."""
        return self._began + self.limit - time.monotonic()

    @property
    def device(self) -> Any:
        return self._session.cpu()

    def load(self, library: Path) -> Any:
        """A library of this path, uploaded and loaded unless it is among the last ones.

        So the content under a path must stay the same. On the board each has a new name: writing
        over a loaded library crashes the board.
        """
        loaded = self._libraries.pop(library, None)
        if loaded is None:
            name = f"{self._files}.so"
            self._files += 1
            self._session.upload(str(library), name)
            loaded = self._session.load_module(name)
        self._libraries[library] = loaded
        if len(self._libraries) > _KEPT_LIBRARIES:
            self._libraries.popitem(last=False)
        return loaded

    def arguments(self, program: Program) -> list[Any]:
        """The program's buffers on the board, inputs filled, kept for the next time."""
        kept = self._arguments.pop(program.key, None)
        if kept is None:
            kept = (program, self.upload(program, random_inputs(program)))
        self._arguments[program.key] = kept
        self._forget_oldest()
        return list(kept[1])

    def upload(self, program: Program, inputs: Sequence[Array]) -> list[Any]:
        """New buffers on the board, with these inputs and spoiled outputs."""
        waiting = iter(inputs)
        arguments = []
        for buffer in program.buffers:
            tensor = tvm.runtime.empty(buffer.shape, buffer.dtype, self.device)
            tensor.copyfrom(spoiled(buffer) if buffer.output else next(waiting))
            arguments.append(tensor)
        return arguments

    def _forget_oldest(self) -> None:
        while len(self._arguments) > 1 and (
            len(self._arguments) > _KEPT_PROGRAMS
            or sum(byte_count(one.buffers) for one, _ in self._arguments.values()) > _KEPT_BYTES
        ):
            self._arguments.popitem(last=False)

    def run(self, library: Any, arguments: Sequence[Any]) -> None:
        """Calls the library's kernel once."""
        library[ENTRY](*arguments)

    def evaluator(self, library: Any, number: int, repeat: int) -> Any:
        """A function that times (1 + number x repeat) calls on the board, the first not counted."""
        return library.time_evaluator(ENTRY, self.device, number=number, repeat=repeat)

    @property
    def counts_instructions(self) -> bool:
        """Whether the board counts what it executes: an emulated one, where the emulator can."""
        return self._count is not None

    def count_instructions(self, library: Any, arguments: Sequence[Any]) -> float:
        """The instructions of one call of the library's kernel, which is called a few times."""
        assert self._count is not None, "ask counts_instructions first"
        return float(self._count(library, ENTRY, *arguments))

    def state(self) -> dict[str, float | str]:
        """What the board says of its own state; empty where it says nothing."""
        if self._state is None:
            return {}
        told = json.loads(str(self._state()))
        return {name: value for name, value in told.items() if value is not None}

    def is_alive(self) -> bool:
        """Whether the session still answers."""
        try:
            self._session.get_function("tvm.rpc.server.workpath")("")
        except Exception:
            return False
        return True

    def board_is_registered(self) -> bool:
        """Whether the very process that serves this session is still at the tracker."""
        now = identity(self._address, self._host, self._port)
        return now is not None and now == self._identity

    def close(self) -> None:
        """Gives the board back."""
        self._arguments.clear()
        self._libraries.clear()
        # What remains are objects of the session, which would keep it open.
        with suppress(Exception):
            self._session.get_function("CloseRPCConnection")()

    def _function(self, name: str) -> Any | None:
        try:
            return self._session.get_function(name)
        except Exception:  # the board's own agent has it, TVM's server has not
            return None


def download(tensor: Any) -> Array:
    """A tensor's content as an array."""
    array: Array = tensor.numpy()
    return array


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
