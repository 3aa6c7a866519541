"""How far an import or an export is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tunebook.cache.exchange.interchange import Line, read_lines

_EVERY = 100  # lines


@dataclass(frozen=True)
class FileProgress:
    """How far a step is: `done` of `total` bytes of a file, or traces."""

    step: str
    done: int
    total: int


Tell = Callable[[FileProgress], None]


def told_lines(path: Path, step: str, tell: Tell) -> Iterator[Line]:
    """A file's lines, telling now and then how far they are."""
    total = path.stat().st_size
    for line in read_lines(path):
        if line.number % _EVERY == 1:
            tell(FileProgress(step, line.offset, total))
        yield line
    tell(FileProgress(step, total, total))
