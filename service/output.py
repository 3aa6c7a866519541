"""What goes to the terminal: results on stdout, errors and progress on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from pydantic import BaseModel
from rich.console import Console
from rich.progress import Progress, ProgressColumn
from rich.table import Table
from rich.text import Text

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import Miss, groups


def print_error(text: str) -> None:
    """One line on stderr."""
    print(f"error: {' '.join(text.split())}", file=sys.stderr)


def printable(text: str) -> str:
    """One line of text without what a terminal would follow instead of showing."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)


def print_json(document: BaseModel) -> None:
    """One JSON document on stdout."""
    # In ASCII: a path need not be UTF-8, nor the terminal.
    print(json.dumps(document.model_dump(), indent=2))


def progress_bars(*columns: ProgressColumn, quiet: bool, auto_refresh: bool = True) -> Progress:
    """Progress bars on stderr that go away when they stop; none where nobody would see them."""
    console = Console(stderr=True)
    return Progress(
        *columns,
        console=console,
        # Where no terminal shows it, a bar is but an empty line.
        disable=quiet or not console.is_terminal,
        transient=True,
        auto_refresh=auto_refresh,
    )


def print_text(text: str) -> None:
    """A line on stdout, wrapped where a terminal needs it."""
    Console(highlight=False).print(Text(text), soft_wrap=True)


def print_table(table: Table) -> None:
    """A table on stdout; a file or a pipe gets it at its full width."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    console.print(table)


def print_misses(misses: Sequence[Miss]) -> None:
    """Every miss on stderr: what was looked for, why it is not there, what mends it."""
    print(show_misses(misses), file=sys.stderr)


def show_misses(misses: Sequence[Miss]) -> str:
    """For each cause a line with its count, then its misses with what is nearest and how it
    differs, then the command that mends them."""
    lines = []
    for group in groups(misses):
        lines.append(f"{len(group.misses)} {group.cause}")
        for miss in group.misses:
            lines += _details(miss)
        lines.append(f"  to mend: {group.mending_command}")
    return "\n".join(lines)


def _details(miss: Miss) -> list[str]:
    lines = [f"  {miss.key.op} | {miss.key.buffers}"]
    lines.append(f"      wanted:  {_rest_of_key(miss.key)}")
    if miss.nearest is None or miss.nearest == miss.key:
        return [*lines, f"      {miss.explanation}"]
    lines.append(f"      nearest: {_nearest(miss.key, miss.nearest)}")
    told = "; ".join(map(str, miss.differences)) or miss.explanation
    return [*lines, f"      differs: {told}"]


def _rest_of_key(key: ScheduleKey) -> str:
    return f"{key.target} | {key.compiler} | {key.workload_hash}"


def _nearest(key: ScheduleKey, nearest: ScheduleKey) -> str:
    """The nearest key; of the same program only what may differ."""
    same = (nearest.op, nearest.buffers) == (key.op, key.buffers)
    return _rest_of_key(nearest) if same else str(nearest)


def show_seconds(seconds: float | None) -> str:
    """A run time as people read it: `812 ns`, `12.3 us`, `4.567 ms`, `-` for none."""
    if seconds is None:
        return "-"
    if seconds < 1e-6:
        return f"{seconds * 1e9:.0f} ns"
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1e3:.3f} ms"
