"""Telling a coordinator how a board is; one that is away or refuses costs a line in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from tunebook.cache.boards.board_reports import BoardOrders, BoardReport
from tunebook.cache.errors import ServerError, TunebookError, UnreachableError
from tunebook.cache.remote.client import Client

_log = logging.getLogger(__name__)

_SHORTEST, _LONGEST = 1.0, 300.0


class _OrdersDocument(BaseModel):
    quarantine: str = ""
    report_seconds: float = BoardOrders.report_seconds

    def orders(self) -> BoardOrders:
        return BoardOrders(
            self.quarantine, min(_LONGEST, max(_SHORTEST, float(self.report_seconds)))
        )


class CoordinatorReports:
    """The reports of one board. `connect` makes a client, which is made anew after a refusal: the
    token that a coordinator leaves on its own machine may be another by then."""

    def __init__(self, board_class: str, name: str, connect: Callable[[], Client]) -> None:
        """Raises UsageError for what is no address of a coordinator."""
        self._path = f"/boards/{quote(board_class, safe='')}/{quote(name, safe='')}"
        self._told = {"board_class": board_class, "board": name}
        self._connect = connect
        self._client: Client | None = connect()
        self._fault = ""
        self.orders = BoardOrders()

    def send(self, report: BoardReport) -> BoardOrders:
        """Reports, and gives the orders that hold now: those of the answer, and without one those
        of the last. Never raises a TunebookError."""
        try:
            if self._client is None:
                self._client = self._connect()
            # Reports are made again soon: none is worth a second attempt.
            answer = self._client.request("PUT", self._path, asdict(report.shortened()))
            self.orders = _OrdersDocument.model_validate(answer).orders()
        except (TunebookError, ValidationError) as error:
            self._note_fault(error)
        else:
            if self._fault:
                _log.info("the coordinator takes reports again", extra=self._told)
            self._fault = ""
        return self.orders

    def close(self) -> None:
        """Closes the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _note_fault(self, error: Exception) -> None:
        if isinstance(error, ValidationError):
            text = "the coordinator's answer is not that of this version; check its version"
        else:
            text = str(error)
        # One line for each outage: what is refused or away now will mostly be so next time.
        kind = type(error).__name__
        if kind != self._fault:
            _log.warning("not reported: %s; the board goes on without", text, extra=self._told)
        self._fault = kind
        if isinstance(error, ServerError) and not isinstance(error, UnreachableError):
            self.close()
