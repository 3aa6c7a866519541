"""The target that a command is given, completed by the class of boards that it names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tunebook.cache.boards.board_reports import ClassDefaults
from tunebook.cache.errors import UsageError
from tunebook.cache.storage.database import parse_url
from tunebook.service.commands.options import open_store
from tunebook.service.given_targets import HOST
from tunebook.service.known_classes import KnownClass

if TYPE_CHECKING:
    from tunebook.service.board_documents import BoardClasses


def completed_target(
    target: str | None, board_class: str | None, db: str | None, server: str | None = None
) -> str:
    """The target as it was given, or, where database or coordinator know defaults of the class, the
    canonical text that they make of it, which is then told on stderr.

    Raises UsageError where neither a target nor a class is given, TargetError, and whatever keeps
    the class from being looked up.
    """
    if target == HOST or (target is not None and board_class is None):
        return target
    if board_class is None:
        raise UsageError(
            "no target is given; give --target, or --boards with a class that has defaults"
        )
    defaults = _defaults(board_class, db, server)
    if target is not None and defaults is None:
        return target
    text = KnownClass(board_class, defaults).complete(target)
    if text != target:
        print(f"target, completed by the board class {board_class}: {text}", file=sys.stderr)
    return text


def _defaults(board_class: str, db: str | None, server: str | None) -> ClassDefaults | None:
    if server is not None:
        return asked_boards(server).defaults_of(board_class)
    if not _is_there(db):
        return None
    with open_store(db, read_only=True) as store:
        return store.boards.defaults(board_class)


def asked_boards(server: str) -> BoardClasses:
    """All that a coordinator knows of boards. Raises ServerError."""
    # Only here: `tunebook --help` should not wait for a client of HTTP.
    from tunebook.cache.remote.client import Client
    from tunebook.service.board_documents import BoardClasses

    with Client(server) as client:
        return client.read_document(BoardClasses, "GET", "/boards")


def _is_there(db: str | None) -> bool:
    """Whether there is a database to read: a file that is not there yet has nothing to tell."""
    url = parse_url(db)
    return url.drivername != "sqlite" or Path(url.database or "").exists()
