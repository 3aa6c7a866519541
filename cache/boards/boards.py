"""Boards: what their agents report, how well they measure, and what became doubtful with them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from tunebook.cache.board_names import check_own_class
from tunebook.cache.boards import references, stored_defaults, stored_reports, suspects
from tunebook.cache.boards.board_reports import (
    BoardOrders,
    BoardReport,
    BoardState,
    ClassDefaults,
)
from tunebook.cache.records import Measurement, Record
from tunebook.cache.storage.database import Database

_log = logging.getLogger(__name__)


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
        check_own_class(board_class)
        defaults = report.defaults()
        with self._database.writing() as session:
            quarantine = stored_reports.store_report(session, board_class, name, report)
            if defaults is not None:
                stored_defaults.set_first_defaults(session, board_class, defaults)
        return BoardOrders(quarantine)

    def boards(self, board_class: str | None = None) -> tuple[BoardState, ...]:
        """The boards that an agent reported or whose reference was measured, of one class or of
        all, by class and name."""
        with self._database.reading() as session:
            return stored_reports.read_boards(session, board_class)

    def board(self, board_class: str, name: str) -> BoardState | None:
        """One board; None where neither an agent nor a reference has told of it."""
        found = (one for one in self.boards(board_class) if one.name == name)
        return next(found, None)

    def defaults(self, board_class: str) -> ClassDefaults | None:
        """What the targets of a class have unless they say otherwise; None where nobody said."""
        with self._database.reading() as session:
            return stored_defaults.read_defaults(session, board_class)

    def all_defaults(self) -> dict[str, ClassDefaults]:
        """The defaults of every class that has some, by its name."""
        with self._database.reading() as session:
            return stored_defaults.all_defaults(session)

    def set_defaults(self, board_class: str, defaults: ClassDefaults) -> ClassDefaults:
        """Sets the defaults of a class, there or not; gives them as they are stored. Raises
        UsageError for the class of those in quarantine, and TargetError for what no target can
        have."""
        check_own_class(board_class)
        checked = defaults.canonical()
        with self._database.writing() as session:
            stored_defaults.change_defaults(session, board_class, checked)
        return checked

    # --- references --------------------------------------------------------------------------
    def reference_due(self, board_class: str, name: str, every_seconds: float) -> bool:
        """Whether a board's reference kernel is to be measured now: its last measurement is older
        than `every_seconds` by the database's clock, or speaks against where the board stands. A
        board that is not known well enough to be judged is due more often."""
        with self._database.reading() as session:
            return references.reference_due(session, board_class, name, every_seconds)

    def note_reference(
        self, board_class: str, name: str, run_seconds: Sequence[float], state: Mapping[str, Any]
    ) -> str:
        """Keeps a measurement of a board's reference kernel, of which the median counts, with what
        the board said of itself then; gives why the board is in quarantine now (empty: it is not).

        With the second measurement in a row that lies beyond its own spread the board goes into
        quarantine, and all that it measured since it last measured well is suspect; with the second
        in a row that lies within, it comes back.
        """
        with self._database.writing() as session:
            noted = references.note_reference(session, board_class, name, run_seconds, state)
        told = {"board_class": board_class, "board": name}
        if noted.changed and noted.quarantine:
            more = {"reason": noted.quarantine, "suspects": noted.suspects}
            _log.warning("a board is in quarantine", extra={**told, **more})
        elif noted.changed:
            _log.info("a board measures well again", extra=told)
        return noted.quarantine

    def begin_baseline(self, board_class: str, name: str) -> None:
        """Forgets what a board's reference kernel took, and ends its quarantine: it is another
        board from now on, with a new cooler for example. What is suspect stays so until it is
        measured again. Raises NotFoundError for a board that nobody knows."""
        with self._database.writing() as session:
            references.begin_baseline(session, board_class, name)

    def forget(self, board_class: str, name: str) -> None:
        """Forgets a board that is gone, with its baseline and quarantine; its records stay as they
        are. One that is heard of again is a new board. Raises NotFoundError for a board that
        nobody knows, and UsageError for one whose agent reports."""
        with self._database.writing() as session:
            references.forget_board(session, board_class, name)

    def quarantine(self, board_class: str, name: str) -> str:
        """Why a board is in quarantine; empty where it is not."""
        with self._database.reading() as session:
            return references.quarantine(session, board_class, name)

    def quarantined(self, board_class: str) -> frozenset[str]:
        """The names of a class's boards that are in quarantine."""
        with self._database.reading() as session:
            return references.quarantined(session, board_class)

    # --- suspect records ---------------------------------------------------------------------
    def suspect_targets(self, board_class: str, compiler: str) -> tuple[str, ...]:
        """The targets for which records of a class's boards by a compiler are suspect."""
        with self._database.reading() as session:
            return suspects.suspect_targets(session, board_class, compiler)

    def suspects(
        self, board_class: str, target: str, compiler: str, limit: int
    ) -> tuple[Record, ...]:
        """Suspect records of a class's boards for a target: those that are served first, then the
        fastest."""
        with self._database.reading() as session:
            return suspects.suspects(session, board_class, target, compiler, limit)

    def suspects_revision(self) -> int:
        """A number that rises whenever records become suspect: what was learnt before may be from
        them."""
        with self._database.reading() as session:
            return suspects.suspects_revision(session)

    def remeasured(self, record_id: int, measurement: Measurement) -> bool:
        """Keeps a further measurement of a record as a repeat, charging its board seconds and no
        trial. Of a suspect record, by a board that is not in quarantine, it becomes the record's
        figures: it is not suspect any more, and what is served is chosen anew. Gives whether; a
        lost board says nothing. Raises DatabaseError where there is no such record."""
        with self._database.writing() as session:
            return suspects.remeasured(session, record_id, measurement)
