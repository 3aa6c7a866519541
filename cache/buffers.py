"""The `buffers` part of a key, written and read: `f32[1,64,56,56] f32[64] -> f32[1,64,54,54]`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

_BUFFER = re.compile(r"(?P<dtype>[^\[\]\s]+?)(\[(?P<shape>[^\[\]]*)\])?")
_LONG_DTYPE = re.compile(r"(float|bfloat|uint|int)(\d+)")
_SHORT = {"float": "f", "bfloat": "bf", "uint": "u", "int": "i"}


class Shaped(Protocol):
    """What has the parts of a buffer; the dtype may be spelled out (`float32`)."""

    @property
    def dtype(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def output(self) -> bool: ...


@dataclass(frozen=True)
class Buffer:
    """An input or output of a program; a scalar has an empty shape."""

    dtype: str
    shape: tuple[int, ...]
    output: bool


def buffers_text(buffers: Sequence[Shaped]) -> str:
    """Dtypes and shapes, inputs before outputs: what `parse_buffers` reads."""
    inputs = [_buffer_text(one) for one in buffers if not one.output]
    outputs = [_buffer_text(one) for one in buffers if one.output]
    return " ".join([*inputs, "->", *outputs])


def _buffer_text(buffer: Shaped) -> str:
    match = _LONG_DTYPE.fullmatch(buffer.dtype)
    dtype = _SHORT[match[1]] + match[2] if match else buffer.dtype
    return f"{dtype}[{','.join(map(str, buffer.shape))}]"


def parse_buffers(text: str) -> tuple[Buffer, ...]:
    """Reads the text, inputs first. Raises ValueError where it is no such text."""
    buffers = []
    output = False
    for word in text.split():
        if word == "->":
            output = True
            continue
        match = _BUFFER.fullmatch(word)
        if match is None:
            raise ValueError(f"{word!r} is no buffer of the form dtype[extents]")
        extents = [extent for extent in (match["shape"] or "").split(",") if extent]
        buffers.append(Buffer(match["dtype"], tuple(map(int, extents)), output))
    return tuple(buffers)


def dtypes_text(buffers: tuple[Buffer, ...]) -> str:
    """The dtypes alone, an arrow before each output: `f32 f32 ->f32`."""
    return " ".join(("->" if b.output else "") + b.dtype for b in buffers)


def shapes_text(buffers: tuple[Buffer, ...]) -> str:
    """The shapes alone, an arrow before each output: `[1,64] ->[1]`."""
    return " ".join(
        ("->" if b.output else "") + f"[{','.join(map(str, b.shape))}]" for b in buffers
    )


def log_elements(buffers: tuple[Buffer, ...]) -> float:
    """The base-2 logarithm of the number of elements in all buffers together."""
    return math.log2(max(1, sum(math.prod(buffer.shape) for buffer in buffers)))
