"""What trials ask of a board, as much in one call as can be: a far one takes long to answer."""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi

ASK = "tunebook.board.ask"
STATE = "tunebook.board.state"
COUNT = "tunebook.board.count_instructions"

_CPU = 1
_FIRST_CPU = 0


@dataclass(frozen=True)
class _Buffer:
    """A buffer's memory, seen as bytes and as what a kernel takes, and whether a kernel writes
    it."""

    memory: Any
    tensor: Any
    is_output: bool


class TrialCalls:
    """The functions of one session. Buffers are kept by the names that the client gives them."""

    def __init__(self, keep: Callable[[str, bytes], None]) -> None:
        self._keep = keep
        self._placed: dict[str, list[_Buffer]] = {}

    def register(self) -> None:
        """Lets the session's client call any of these by the one function that it has to look up:
        its name, and what it takes."""
        functions: list[Callable[..., Any]] = [
            self.load,
            self.place,
            self.fill,
            self.forget,
            self.time,
            self.outputs,
            self.count_instructions,
            self.state,
            self.use_cores,
        ]
        named = {function.__name__: function for function in functions}
        tvm_ffi.register_global_func(
            ASK, lambda name, *arguments: named[name](*arguments), override=True
        )

    def state(self) -> str:
        """JSON of what the board says of itself."""
        return str(tvm_ffi.get_global_func(STATE)())

    def use_cores(self, mode: int, cores: int) -> None:
        """Sets how many threads a kernel gets."""
        tvm_ffi.get_global_func("runtime.config_threadpool")(mode, cores)

    def load(self, name: str, content: bytes) -> Any:
        """Stores a library under its name and loads it."""
        self._keep(name, content)
        return tvm_ffi.get_global_func("tvm.rpc.server.load_module")(name)

    def place(self, name: str, layout: str, content: bytes) -> None:
        """Makes buffers, in place of others of this name, and fills the first of them.

        The layout is JSON, a list of `[shape, dtype, is_output]`.
        """
        self._placed.pop(name, None)
        self._placed[name] = [_buffer(*one) for one in json.loads(layout)]
        self.fill(name, 0, content)

    def fill(self, name: str, offset: int, content: bytes) -> None:
        """Writes on from a byte of the buffers, taken one after the other."""
        rest = memoryview(content)
        for buffer in self._named(name):
            size = buffer.memory.shape[0]
            if rest and offset < size:
                part, rest = rest[: size - offset], rest[size - offset :]
                address = buffer.memory.data_ptr() + offset
                ctypes.memmove(address, bytes(part), len(part))
            offset = max(0, offset - size)

    def forget(self, name: str) -> None:
        """Gives the memory of buffers back."""
        self._placed.pop(name, None)

    def time(self, library: Any, entry: str, number: int, repeat: int, name: str) -> bytes:
        """Seconds of a call of the library's function, as doubles: `repeat` means of `number`
        calls, after one that is not counted."""
        evaluator = tvm_ffi.get_global_func("runtime.RPCTimeEvaluator")
        call = evaluator(library, entry, _CPU, _FIRST_CPU, number, repeat, 0, 0, 0, 1, 0, "")
        seconds: bytes = call(*(buffer.tensor for buffer in self._named(name)))
        return seconds

    def outputs(self, library: Any, entry: str, name: str) -> bytes:
        """Calls the library's function once, gives what it wrote, output after output, and forgets
        the buffers."""
        buffers = self._named(name)
        self.forget(name)
        library[entry](*(buffer.tensor for buffer in buffers))
        return b"".join(
            ctypes.string_at(buffer.memory.data_ptr(), buffer.memory.shape[0])
            for buffer in buffers
            if buffer.is_output
        )

    def count_instructions(self, library: Any, entry: str, name: str) -> float:
        """The instructions of one call of the library's function, where the board counts them."""
        count = tvm_ffi.get_global_func(COUNT)
        return float(count(library, entry, *(buffer.tensor for buffer in self._named(name))))

    def _named(self, name: str) -> list[_Buffer]:
        if name not in self._placed:
            raise LookupError(f"no buffers are called {name!r} in this session; place them first")
        return self._placed[name]


def _buffer(shape: list[int], dtype: str, is_output: bool) -> _Buffer:
    size = math.prod(shape) * tvm_ffi.dtype(dtype).itemsize
    memory = tvm.runtime.empty((size,), "uint8")
    return _Buffer(memory, memory._create_view(shape, dtype), is_output)
