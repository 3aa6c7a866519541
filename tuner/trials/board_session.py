"""One RPC session on one board: what a measuring process does there, and how it ended."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tvm import rpc

from tunebook.cache.errors import BoardError
from tunebook.cache.keys import WorkloadKey
from tunebook.tuner.splitting.program import Program
from tunebook.tuner.trials.board_calls import TunebookServerCalls, calls_of
from tunebook.tuner.trials.board_tracker import BoardOffer, identity, request_board
from tunebook.tuner.trials.tensors import Array, byte_count, random_inputs
from tunebook.tuner.trials.trials import BoardAddress, OpenedBoard

_REFUSED_SECONDS = 0.5
# Inputs of this many programs, and bytes, are kept on the board.
_KEPT_PROGRAMS = 8
_KEPT_BYTES = 256 * 2**20
# What buffers are called that are for one call only.
_FRESH = "fresh"
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
        self._buffers: OrderedDict[WorkloadKey, tuple[Program, Any]] = OrderedDict()
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
            self._calls = calls_of(self._session)
            self.use_cores(num_cores)
            self._counting = self._calls_that_count()
            self.opened = self._describe(offer)
        except Exception:
            self.close()
            raise

    def _describe(self, offer: BoardOffer) -> OpenedBoard:
        state = self.state()
        server = offer.server
        return OpenedBoard(
            board_class=self._address.board_class,
            name=str(state.get("name", f"{offer.host}:{offer.port}")),
            host=offer.host,
            port=offer.port,
            server_id=server.server_id if server is not None else None,
            mtriple=server.mtriple if server is not None else "",
            features=server.features if server is not None else frozenset(),
            cores=server.cores if server is not None else None,
            state=state,
        )

    def use_cores(self, num_cores: int) -> None:
        """Sets how many threads a kernel gets."""
        if num_cores != self._cores:
            self._calls.use_cores(num_cores)
            self._cores = num_cores

    @property
    def seconds_left(self) -> float:
        """Until the board ends this session."""
        return self._began + self.limit - time.monotonic()

    def load(self, library: Path) -> Any:
        """A library of this path, uploaded and loaded unless it is among the last ones.

        So the content under a path must stay the same. On the board each has a new name: writing
        over a loaded library crashes the board.
        """
        loaded = self._libraries.pop(library, None)
        if loaded is None:
            loaded = self._calls.load(library, f"{self._files}.so")
            self._files += 1
        self._libraries[library] = loaded
        if len(self._libraries) > _KEPT_LIBRARIES:
            self._libraries.popitem(last=False)
        return loaded

    def buffers(self, program: Program) -> Any:
        """The program's buffers on the board, inputs filled, kept for the next time."""
        kept = self._buffers.pop(program.key, None)
        if kept is None:
            buffers = self._calls.place(program.key.hash, program, random_inputs(program))
            kept = (program, buffers)
        self._buffers[program.key] = kept
        self._forget_oldest()
        return kept[1]

    def _forget_oldest(self) -> None:
        while len(self._buffers) > 1 and (
            len(self._buffers) > _KEPT_PROGRAMS
            or sum(byte_count(one.buffers) for one, _ in self._buffers.values()) > _KEPT_BYTES
        ):
            _, (_, oldest) = self._buffers.popitem(last=False)
            self._calls.release(oldest)

    def outputs(self, library: Any, program: Program, inputs: Sequence[Array]) -> list[Array]:
        """What the library's kernel makes of these inputs, called once."""
        return self._calls.outputs(library, self._calls.place(_FRESH, program, inputs), program)

    def time(self, library: Any, buffers: Any, number: int, repeat: int) -> tuple[float, ...]:
        """Seconds of a call of the library's kernel: `repeat` means of `number` calls, after one
        that is not counted."""
        return self._calls.time(library, buffers, number, repeat)

    @property
    def counts_instructions(self) -> bool:
        """Whether the board counts what it executes: an emulated one, where the emulator can."""
        return self._counting is not None

    def count_instructions(self, library: Any, buffers: Any) -> float:
        """The instructions of one call of the library's kernel, which is called a few times."""
        assert self._counting is not None, "ask counts_instructions first"
        return self._counting.count_instructions(library, buffers)

    def state(self) -> dict[str, float | str]:
        """What the board says of its own state, its name too; empty where it says nothing."""
        return self._calls.state()

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
        self._buffers.clear()
        self._libraries.clear()
        # What remains are objects of the session, which would keep it open.
        with suppress(Exception):
            self._session.get_function("CloseRPCConnection")()

    def _calls_that_count(self) -> TunebookServerCalls | None:
        if not self._address.emulated or not isinstance(self._calls, TunebookServerCalls):
            return None
        return self._calls if self._calls.can_count() else None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
