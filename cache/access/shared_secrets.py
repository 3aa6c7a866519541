"""Secrets that all processes of one database share, and nobody else has.

With them is sealed what passes through other hands and is to be known for ours.
"""

from __future__ import annotations

import secrets

from sqlalchemy import select
from sqlalchemy.orm import Session

from tunebook.cache.storage.identities import insert_missing
from tunebook.cache.storage.tables import SecretRow

_BYTES = 32


def shared_secret(session: Session, name: str) -> bytes:
    """See Store.shared_secret."""
    known = select(SecretRow.value).where(SecretRow.name == name)
    value = session.scalar(known)
    if value is None:
        insert_missing(session, SecretRow, {"name": name, "value": secrets.token_hex(_BYTES)})
        # Of those who make it at the same time one has made it.
        value = session.execute(known).scalar_one()
    return bytes.fromhex(value)
