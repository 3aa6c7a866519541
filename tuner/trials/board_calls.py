"""How a trial's kernels and buffers are used in a session: by as few calls as the board offers."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tvm

from tunebook.tuner.splitting.program import ENTRY, BufferSpec, Program
from tunebook.tuner.trials.tensors import Array, byte_count, numpy_dtype, spoiled
from tunebook.tuner.tvm_compat import BIG_CORES

# The board has what comes in a call twice for a while.
_MOST_BYTES = 16 * 2**20


class BoardCalls(Protocol):
    """What is asked of the board a session is on. Libraries and buffers are objects of the
    session; every method may raise what TVM raises when that ends meanwhile."""

    def use_cores(self, cores: int) -> None:
        """Sets how many threads a kernel gets."""

    def state(self) -> dict[str, float | str]:
        """What the board says of its own state, its name too; empty where it says nothing."""

    def load(self, library: Path, name: str) -> Any:
        """A library, uploaded under this name and loaded."""

    def place(self, name: str, program: Program, inputs: Sequence[Array]) -> Any:
        """The program's buffers on the board, with these inputs and spoiled outputs, in place of
        any of this name."""

    def release(self, buffers: Any) -> None:
        """Gives back the memory of buffers that are not used again."""

    def time(self, library: Any, buffers: Any, number: int, repeat: int) -> tuple[float, ...]:
        """Seconds of a call of the kernel: `repeat` means of `number` calls, after one that is not
        counted."""

    def outputs(self, library: Any, buffers: Any, program: Program) -> list[Array]:
        """What the kernel writes, called once; the buffers are not to be used again."""


def calls_of(session: Any) -> BoardCalls:
    """As few calls as the board of this session offers."""
    ask = _function(session, "tunebook.board.ask")
    if ask is not None:
        return TunebookServerCalls(session, ask)
    return TvmServerCalls(session)


class TvmServerCalls:
    """By what TVM's own server offers, and Tunebook's of before: a dozen calls and more a trial."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._state = _function(session, "tunebook.board.state")

    def use_cores(self, cores: int) -> None:
        self._session.get_function("runtime.config_threadpool")(BIG_CORES, cores)

    def state(self) -> dict[str, float | str]:
        return {} if self._state is None else _told(self._state())

    def load(self, library: Path, name: str) -> Any:
        self._session.upload(str(library), name)
        return self._session.load_module(name)

    def place(self, name: str, program: Program, inputs: Sequence[Array]) -> list[Any]:
        tensors = []
        for buffer, content in zip(program.buffers, _contents(program, inputs), strict=True):
            tensor = tvm.runtime.empty(buffer.shape, buffer.dtype, self._session.cpu())
            tensor.copyfrom(content)
            tensors.append(tensor)
        return tensors

    def release(self, buffers: Any) -> None:
        buffers.clear()

    def time(self, library: Any, buffers: Any, number: int, repeat: int) -> tuple[float, ...]:
        cpu = self._session.cpu()
        evaluator = library.time_evaluator(ENTRY, cpu, number=number, repeat=repeat)
        return tuple(evaluator(*buffers).results)

    def outputs(self, library: Any, buffers: Any, program: Program) -> list[Array]:
        library[ENTRY](*buffers)
        tensors = zip(buffers, program.buffers, strict=True)
        return [tensor.numpy() for tensor, buffer in tensors if buffer.output]


class TunebookServerCalls:
    """By what Tunebook's board server offers, mostly one call for each of these."""

    def __init__(self, session: Any, ask: Any) -> None:
        self._session = session
        self._ask = ask

    def use_cores(self, cores: int) -> None:
        self._ask("use_cores", BIG_CORES, cores)

    def state(self) -> dict[str, float | str]:
        return _told(self._ask("state"))

    def can_count(self) -> bool:
        """Whether the board counts the instructions that it executes."""
        return _function(self._session, "tunebook.board.count_instructions") is not None

    def count_instructions(self, library: Any, buffers: Any) -> float:
        """The instructions of one call of the kernel, which is called a few times: on an emulated
        board whose emulator counts."""
        return float(self._ask("count_instructions", library, ENTRY, buffers))

    def load(self, library: Path, name: str) -> Any:
        return self._ask("load", name, library.read_bytes())

    def place(self, name: str, program: Program, inputs: Sequence[Array]) -> str:
        layout = json.dumps([(one.shape, one.dtype, one.output) for one in program.buffers])
        offset = 0
        for part in _in_parts(_contents(program, inputs)):
            if offset == 0:
                self._ask("place", name, layout, part)
            else:
                self._ask("fill", name, offset, part)
            offset += len(part)
        return name

    def release(self, buffers: Any) -> None:
        self._ask("forget", buffers)

    def time(self, library: Any, buffers: Any, number: int, repeat: int) -> tuple[float, ...]:
        seconds = self._ask("time", library, ENTRY, number, repeat, buffers)
        return struct.unpack(f"<{repeat}d", seconds)

    def outputs(self, library: Any, buffers: Any, program: Program) -> list[Array]:
        written = [buffer for buffer in program.buffers if buffer.output]
        parts = [self._ask("outputs", library, ENTRY, buffers, _MOST_BYTES)]
        for offset in range(_MOST_BYTES, byte_count(written), _MOST_BYTES):
            parts.append(self._ask("more_outputs", buffers, offset, _MOST_BYTES))
        return _arrays(written, b"".join(parts))


def _in_parts(arrays: Iterable[Array]) -> Iterator[bytes]:
    """The bytes of all arrays, as many at once as may be in a call; at least once."""
    part = b""
    for array in arrays:
        rest = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        while rest:
            if len(part) == _MOST_BYTES:
                yield part
                part = b""
            room = _MOST_BYTES - len(part)
            part, rest = part + rest[:room], rest[room:]
    yield part


def _arrays(buffers: Sequence[BufferSpec], content: bytes) -> list[Array]:
    """What lies one after the other in the content."""
    arrays, offset = [], 0
    for buffer in buffers:
        dtype, count = numpy_dtype(buffer.dtype), math.prod(buffer.shape)
        array = np.frombuffer(content, dtype, count, offset).reshape(buffer.shape)
        arrays.append(array)
        offset += array.nbytes
    return arrays


def _contents(program: Program, inputs: Sequence[Array]) -> Iterator[Array]:
    """What the buffers are filled with."""
    waiting = iter(inputs)
    for buffer in program.buffers:
        yield spoiled(buffer) if buffer.output else next(waiting)


def _told(state: Any) -> dict[str, float | str]:
    told = json.loads(str(state))
    return {name: value for name, value in told.items() if value is not None}


def _function(session: Any, name: str) -> Any | None:
    try:
        return session.get_function(name)
    except Exception:  # the board's server has none of this name
        return None
