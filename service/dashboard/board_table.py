"""Boards as a page shows them: how each is, in a table of what any of them tells."""

from __future__ import annotations

from dataclasses import dataclass

from tunebook.cache.boards.known_boards import Standing
from tunebook.cache.store import Store
from tunebook.service.board_documents import BoardClassDocument, BoardDocument, board_classes
from tunebook.service.board_texts import BOARD_COLUMNS, class_line, note, state_text

# Class, name and state are shown in their own way.
_FIGURES = BOARD_COLUMNS[3:]
_POOR = (Standing.QUARANTINED, Standing.SILENT, Standing.AWAY)


@dataclass(frozen=True)
class Cell:
    """A cell of the table; `title` is that of its column."""

    title: str
    text: str
    is_number: bool


@dataclass(frozen=True)
class BoardTableRow:
    """A board. `standing` is how good its state is: `good` or `poor`; `note` says why it is in
    quarantine or not at the tracker."""

    board_class: str
    name: str
    state: str
    standing: str
    note: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class BoardTable:
    """All boards, with those columns in which any of them has something to tell; `classes` says
    what completes the targets of each class."""

    titles: tuple[Cell, ...]
    rows: tuple[BoardTableRow, ...]
    classes: tuple[str, ...]


def board_table(store: Store) -> BoardTable:
    """The boards that anybody knows, by class and name."""
    known = board_classes(store)
    boards = [(one, board) for one in known.items for board in one.boards]
    told = [column for column in _FIGURES if any(column.show(*pair) for pair in boards)]
    rows = [
        _row(*pair, tuple(Cell(one.title, one.show(*pair), one.is_number) for one in told))
        for pair in boards
    ]
    defaults = {one.board_class: one.class_defaults() for one in known.items}
    return BoardTable(
        tuple(
            Cell(one.title, one.title[:1].upper() + one.title[1:], one.is_number) for one in told
        ),
        tuple(rows),
        tuple(class_line(name, one) for name, one in defaults.items() if one is not None),
    )


def _row(one: BoardClassDocument, board: BoardDocument, cells: tuple[Cell, ...]) -> BoardTableRow:
    return BoardTableRow(
        board_class=one.board_class,
        name=board.board,
        state=state_text(board),
        standing="poor" if board.state in _POOR else "good",
        note=note(board),
        cells=cells,
    )
