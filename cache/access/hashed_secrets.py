"""Secrets that are told once, and stored as hashes only."""

from __future__ import annotations

import hashlib
import secrets

_SECRET_BYTES = 32


def new_secret() -> str:
    """256 random bits in base64url."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def secret_hash(secret: str) -> str:
    """What is stored of a secret, and found by: the SHA-256. So many random bits need no slow hash:
    nobody tries them all; and the time that finding takes tells of the hash alone."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
