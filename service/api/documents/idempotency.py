"""A client's own key for what it asks, so that a retry makes nothing twice."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated

from fastapi import Header
from pydantic import BaseModel

from tunebook.cache.queue.submissions import Idempotency

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="A key of the client's own, such as a UUID. A retry with the same key and body "
        "is answered with what the first one made; the same key with another body is refused.",
    ),
]


def idempotency(owner: str, key: str | None, path: str, submitted: BaseModel) -> Idempotency | None:
    """What tells a retry of this request; None where the client gave no key. Bodies that mean the
    same are the same, however they are spelt."""
    if key is None:
        return None
    meant = json.dumps([path, submitted.model_dump(mode="json")], sort_keys=True)
    return Idempotency(owner, key, hashlib.sha256(meant.encode()).hexdigest())
