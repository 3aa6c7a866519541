"""A board in words and figures, as tables show it to people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone

from tunebook.cache.boards.board_reports import ClassDefaults
from tunebook.cache.boards.known_boards import Standing
from tunebook.service.board_documents import BoardClassDocument, BoardDocument
from tunebook.service.output import show_seconds

_GIB = 2**30
_MOST = 10**12


@dataclass(frozen=True)
class BoardColumn:
    """A column of a table of boards; `show` gives a cell's text, empty where nothing is told."""

    title: str
    show: Callable[[BoardClassDocument, BoardDocument], str]
    is_number: bool = False


def state_text(board: BoardDocument) -> str:
    """`serving`, `silent since 2026-11-30 06:00 UTC`, `quarantined, silent since ...`."""
    since = f"silent since {moment_text(board.reported_at)}"
    if board.state is Standing.SILENT:
        return since
    state = str(board.state.value)
    return f"{state}, {since}" if board.silent else state


def note(board: BoardDocument) -> str:
    """Why a board is in quarantine or is not at the tracker; empty where nothing is to be said."""
    if board.quarantine:
        return f"is in quarantine since {moment_text(board.quarantined_at)}: {board.quarantine}"
    report = board.report
    if report is not None and not report.registered and not board.silent:
        return f"is not at the tracker: {report.fault or 'its agent does not say why'}"
    return ""


def class_line(name: str, defaults: ClassDefaults) -> str:
    """What completes the targets of a class."""
    mcpu = f" -mcpu={defaults.mcpu}" if defaults.mcpu else ""
    return (
        f"targets of class {name} have -mtriple={defaults.mtriple}{mcpu} "
        f"-num-cores={defaults.num_cores} unless they say otherwise"
    )


def moment_text(moment: datetime | None) -> str:
    """A moment in UTC to the minute; empty for none."""
    return "" if moment is None else moment.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def _processor(board: BoardDocument) -> str:
    """`Cortex-A72, 4 cores`."""
    report = board.report
    name = "" if report is None else report.cpu_model or report.mcpu
    cores = (
        "" if board.cores is None else f"{board.cores} {'core' if board.cores == 1 else 'cores'}"
    )
    return _joined(name, cores)


def _text(board: BoardDocument, field: str) -> str:
    """What the agent says of it, or else what the board said to a worker."""
    if board.report is not None:
        return str(getattr(board.report, field) or "")
    told = board.said.get(field)
    return told if isinstance(told, str) else ""


def figure(board: BoardDocument, field: str) -> float | None:
    """A number that the agent says, or else that the board said to a worker."""
    report = board.report
    told = board.said.get(field) if report is None else getattr(report, field)
    if isinstance(told, bool) or not isinstance(told, int | float):
        return None
    # A board may say anything; there is no figure beyond.
    return float(told) if abs(told) < _MOST else None


def _clock(board: BoardDocument) -> str:
    """`1500 MHz, ondemand`: the frequency, and the governor that chooses it."""
    khz = figure(board, "frequency_khz")
    return _joined("" if khz is None else f"{khz / 1000:.0f} MHz", _text(board, "governor"))


def heat_text(board: BoardDocument) -> str:
    """`51.2 °C, under-voltage`: the temperature, and what throttles it."""
    celsius = figure(board, "temperature_c")
    throttled = [] if board.report is None else board.report.throttled
    return _joined("" if celsius is None else f"{celsius:.1f} °C", *throttled)


def _load(board: BoardDocument) -> str:
    load = figure(board, "load")
    return "" if load is None else f"{load:.2f}"


def _memory(board: BoardDocument) -> str:
    report = board.report
    if report is None or report.memory_bytes is None:
        return ""
    total = f"{report.memory_bytes / _GIB:.1f} GiB"
    free = report.memory_free_bytes
    return total if free is None else f"{free / _GIB:.1f} of {total} free"


def reference_text(board: BoardDocument) -> str:
    """`1.234 ms ± 1.2 %`; empty until the reference kernel was measured often enough."""
    if board.reference_seconds is None:
        return ""
    spread = "" if board.reference_spread is None else f" ± {100 * board.reference_spread:.1f} %"
    return f"{show_seconds(board.reference_seconds)}{spread}"


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


BOARD_COLUMNS = (
    BoardColumn("class", lambda one, board: one.board_class),
    BoardColumn("board", lambda one, board: board.board),
    BoardColumn("state", lambda one, board: state_text(board)),
    BoardColumn("CPU", lambda one, board: _processor(board)),
    BoardColumn("clock", lambda one, board: _clock(board)),
    BoardColumn("temperature", lambda one, board: heat_text(board)),
    BoardColumn("load", lambda one, board: _load(board), is_number=True),
    BoardColumn("memory", lambda one, board: _memory(board)),
    BoardColumn("reference", lambda one, board: reference_text(board), is_number=True),
    BoardColumn("last measured", lambda one, board: moment_text(board.measured_at)),
    BoardColumn("suspect", lambda one, board: str(board.suspect_records or ""), is_number=True),
)
