"""Going back to an older schema, for an older Tunebook."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from tunebook.cache.errors import DatabaseError, UsageError
from tunebook.cache.storage.database import Database
from tunebook.cache.storage.schema import OLDER, Loss, losses, lower_schema, version_of
from tunebook.cache.upkeep.at_work import require_nobody_at_work, workers_at_work


@dataclass(frozen=True)
class RollBack:
    """A schema that was taken back, and what was lost with it."""

    before: str
    after: str
    lost: tuple[Loss, ...]


def roll_back(
    url: str | None,
    revision: str,
    *,
    accept_loss: bool = False,
    despite_workers: bool = False,
    at_work: Callable[[Database], tuple[str, ...]] = workers_at_work,
) -> RollBack:
    """Brings a database back to an older schema, in one transaction; what the older one can hold
    stays.

    Raises UsageError for no older schema, and where something would be lost that nobody accepted;
    DatabaseError while workers are alive, unless it is to be done despite them.
    """
    # A file that is not there is not made.
    with closing(Database.open_any(url, read_only=True)) as database:
        _check(database.name, database.version(), revision)
        if not despite_workers:
            require_nobody_at_work(database, at_work)
    with closing(Database.open_any(url)) as database, database.changing_schema() as connection:
        before = version_of(connection, database.name)
        # Somebody else may have gone back meanwhile.
        _check(database.name, before, revision)
        lost = losses(connection, before, revision)
        if lost and not accept_loss:
            raise UsageError(f"{_told(revision, lost)}; back up first, then give --accept-loss")
        lower_schema(connection, revision)
    return RollBack(before, revision, lost)


def _check(name: str, version: str | None, revision: str) -> None:
    """Raises where a database of this version cannot go back to `revision`."""
    if version is None:
        raise DatabaseError(f"the database {name} is empty; give another one with --db")
    older = [one for one in OLDER if one < version]
    if revision not in older:
        raise UsageError(
            f"the database {name} has schema {version}, which can go back to "
            f"{', '.join(older) or 'none'}, and not to {revision!r}"
        )


def _told(revision: str, lost: tuple[Loss, ...]) -> str:
    counted = ", ".join(f"{loss.count} {loss.what}" for loss in lost)
    return f"going back to schema {revision} loses what it has no place for: {counted}"
