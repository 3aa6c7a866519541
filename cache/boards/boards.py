"""Boards: what their agents report, how well they measure, and what became doubtful with them."""

from __future__ import annotations

from tunebook.cache.boards import class_defaults, reports
from tunebook.cache.boards.board_reports import (
    BoardOrders,
    BoardReport,
    BoardState,
    ClassDefaults,
    own_class,
)
from tunebook.cache.errors import UsageError
from tunebook.cache.storage.database import Database


class Boards:
    """Boards: what their agents report, how well they measure, and what became doubtful with them.

    Each method is one transaction. Of each board the last report is kept, and when it arrived by
    the database's own clock, whichever coordinator took it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- reports and defaults ----------------------------------------------------------------
    def report(self, board_class: str, name: str, report: BoardReport) -> BoardOrders:
        """Keeps a board's report; the first one of a class that tells a triple sets the class's
        defaults where there are none. Raises UsageError for the class of those in quarantine, and
        TargetError for cores, triple or processor that no target can have."""
        if own_class(board_class) != board_class:
            raise UsageError(
                f"{board_class} is what boards in quarantine are called at the tracker; report as "
                f"a board of class {own_class(board_class)}"
            )
        defaults = report.defaults()
        with self._database.writing() as session:
            quarantine = reports.store_report(session, board_class, name, report)
            if defaults is not None:
                class_defaults.set_first_defaults(session, board_class, defaults)
        return BoardOrders(quarantine)

    def boards(self, board_class: str | None = None) -> tuple[BoardState, ...]:
        """The boards that an agent reported or whose reference was measured, of one class or of
        all, by class and name."""
        with self._database.reading() as session:
            return reports.read_boards(session, board_class)

    def board(self, board_class: str, name: str) -> BoardState | None:
        """One board; None where neither an agent nor a reference has told of it."""
        found = (one for one in self.boards(board_class) if one.name == name)
        return next(found, None)

    def defaults(self, board_class: str) -> ClassDefaults | None:
        """What the targets of a class have unless they say otherwise; None where nobody said."""
        with self._database.reading() as session:
            return class_defaults.read_defaults(session, board_class)

    def all_defaults(self) -> dict[str, ClassDefaults]:
        """The defaults of every class that has some, by its name."""
        with self._database.reading() as session:
            return class_defaults.all_defaults(session)

    def set_defaults(self, board_class: str, defaults: ClassDefaults) -> ClassDefaults:
        """Sets the defaults of a class, there or not; gives them as they are stored. Raises
        TargetError for what no target can have."""
        checked = defaults.canonical()
        with self._database.writing() as session:
            class_defaults.change_defaults(session, board_class, checked)
        return checked
