"""What a client's key made, so that a client that asks again makes nothing twice."""

from __future__ import annotations

from sqlalchemy.orm import Session

from tunebook.cache.errors import IdempotencyError
from tunebook.cache.queue.submissions import Idempotency
from tunebook.cache.storage.revisions import SUBMISSIONS, bump
from tunebook.cache.storage.tables import IdempotencyRow


def take_turn(session: Session) -> None:
    """Lets one transaction submit at a time: of two that are alike, the later sees the earlier."""
    bump(session, SUBMISSIONS)


def made_before(session: Session, kind: str, idempotency: Idempotency | None) -> int | None:
    """The id of what this key made (a `job`, a `budget`); None where it made nothing yet. Raises
    IdempotencyError where it asked for something else then."""
    if idempotency is None:
        return None
    row = session.get(IdempotencyRow, (idempotency.owner, idempotency.key))
    if row is None:
        return None
    made, _, number = row.resource.partition("/")
    if row.body_hash != idempotency.body_hash or made != kind:
        raise IdempotencyError(
            f"the idempotency key {idempotency.key!r} was used for another request, which made "
            f"{row.resource}; send a new key with a new request"
        )
    return int(number)


def note_made(session: Session, kind: str, made: int, idempotency: Idempotency | None) -> None:
    if idempotency is not None:
        session.add(
            IdempotencyRow(
                owner=idempotency.owner,
                key=idempotency.key,
                body_hash=idempotency.body_hash,
                resource=f"{kind}/{made}",
            )
        )
        session.flush()
