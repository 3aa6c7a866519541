"""What trials ask of a board, as much in one call as can be: a far one takes long to answer."""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi

from tunebook.workers.boards.server.calls_in_a_row import calls_in_a_row

ASK = "tunebook.board.ask"
STATE = "tunebook.board.state"
COUNT = "tunebook.board.count_instructions"


@dataclass(frozen=True)
class _Buffer:
    """A buffer as a kernel takes it, its bytes, and whether a kernel writes it."""

    tensor: Any
    size: int
    is_output: bool


class TrialCalls:
    """The functions of one session. Buffers are kept by the names that the client gives them."""

    def __init__(self, keep: Callable[[str, bytes], None]) -> None:
        self._keep = keep
        self._placed: dict[str, list[_Buffer]] = {}
        functions: list[Callable[..., Any]] = [
            self.state,
            self.use_cores,
            self.load,
            self.place,
            self.fill,
            self.forget,
            self.time,
            self.outputs,
            self.more_outputs,
            self.count_instructions,
        ]
        self._functions = {function.__name__: function for function in functions}

    def register(self) -> None:
        """Offers these to the session's client: one function to look up, told which is meant."""
        tvm_ffi.register_global_func(ASK, self._ask, override=True)

    def _ask(self, name: str, *arguments: Any) -> Any:
        if name not in self._functions:
            raise LookupError(f"this board server knows no {name!r}; upgrade it with the workers")
        try:
            return self._functions[name](*arguments)
        except MemoryError:
            raise RuntimeError(
                f"the board is out of memory ({name!r}); use one with more for this model"
            ) from None

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
        done = 0
        for address, size in _parts(self._named(name), offset, len(content)):
            ctypes.memmove(address, content[done : done + size], size)
            done += size

    def forget(self, name: str) -> None:
        """Gives the memory of buffers back."""
        self._placed.pop(name, None)

    def time(self, library: Any, entry: str, number: int, repeat: int, name: str) -> bytes:
        """Seconds of a call of the library's function, as doubles: `repeat` means of `number`
        calls, after one that is not counted."""
        seconds: bytes = calls_in_a_row(library, entry, number, repeat)(*self._tensors(name))
        return seconds

    def outputs(self, library: Any, entry: str, name: str, most: int) -> bytes:
        """Calls the library's function once, and gives so many bytes at most of what it wrote,
        output after output."""
        library[entry](*self._tensors(name))
        return self.more_outputs(name, 0, most)

    def more_outputs(self, name: str, offset: int, most: int) -> bytes:
        """Further bytes of them; the buffers are forgotten with the last."""
        written = [buffer for buffer in self._named(name) if buffer.is_output]
        content = b"".join(
            ctypes.string_at(address, size) for address, size in _parts(written, offset, most)
        )
        if offset + most >= sum(buffer.size for buffer in written):
            self.forget(name)
        return content

    def count_instructions(self, library: Any, entry: str, name: str) -> float:
        """The instructions of one call of the library's function, where the board counts them."""
        count = tvm_ffi.get_global_func(COUNT)
        return float(count(library, entry, *self._tensors(name)))

    def _tensors(self, name: str) -> list[Any]:
        return [buffer.tensor for buffer in self._named(name)]

    def _named(self, name: str) -> list[_Buffer]:
        if name not in self._placed:
            raise LookupError(f"no buffers are called {name!r} in this session; place them first")
        return self._placed[name]


def _buffer(shape: list[int], dtype: str, is_output: bool) -> _Buffer:
    size = math.prod(shape) * tvm_ffi.dtype(dtype).itemsize
    try:
        tensor = tvm.runtime.empty(shape, dtype)
    except Exception as error:  # TVM's own, of std::bad_alloc
        raise MemoryError from error
    return _Buffer(tensor, size, is_output)


def _parts(buffers: list[_Buffer], offset: int, most: int) -> Iterator[tuple[int, int]]:
    """Where so many bytes at most lie from a byte of the buffers on, taken one after the other: an
    address and a number of bytes for each that has some."""
    for buffer in buffers:
        size = max(0, min(buffer.size - offset, most))
        if size:
            yield buffer.tensor.data_ptr() + offset, size
            most -= size
        offset = max(0, offset - buffer.size)
