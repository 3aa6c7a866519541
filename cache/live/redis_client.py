"""A client of Redis that waits for nothing long, and what its errors mean."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tunebook.cache.errors import UsageError

# The driver's own types are others in each of its versions.
RedisClient = Any

_SCHEMES = ("redis", "rediss", "unix")
_FORM = "give redis://[:PASSWORD@]HOST[:PORT][/NUMBER], rediss:// for TLS, or unix://PATH"
# (what the text of an error holds, what it means); the first that fits is told.
_FAULTS = (
    ("Authentication required", "wants a password; give it in the URL"),
    ("AuthenticationError", "refuses the user or password; check the URL"),
    ("AuthenticationWrongNumber", "refuses the user or password; check the URL"),
    ("invalid password", "refuses the user or password; check the URL"),
    (
        "NoPermissionError",
        "does not permit this to its user; docs/operations.md says which it needs",
    ),
    ("OutOfMemoryError", "has no memory left for this; raise its maxmemory"),
    ("Connection refused", "cannot be reached; check that it runs at that address"),
    ("Name or service not known", "cannot be reached: no such host; check the URL"),
    ("name resolution", "cannot be reached: its host's name is not answered; check the network"),
    ("No such file", "cannot be reached: there is no such socket; check the URL"),
    ("imeout", "does not answer"),
    ("timed out", "does not answer"),
    ("loading", "is still loading its data"),
    ("closed by server", "has closed the connection"),
    ("Connection reset", "has closed the connection"),
    ("CERTIFICATE_VERIFY_FAILED", "has a certificate that is not trusted; check the authority"),
    ("SSL", "cannot be reached by TLS; check that it speaks it at that port"),
)


@dataclass(frozen=True)
class Timeouts:
    """Seconds: how long a connection may take to be made, and one answer."""

    connect: float = 0.5
    answer: float = 0.5


def shown_url(url: str) -> str:
    """A URL without what may be secret in it, also where it cannot be parsed: logs name it."""
    scheme, separator, rest = url.partition("://")
    if "@" in rest.partition("?")[2]:
        # One of both stands in a password, and which cannot be told.
        return f"{scheme}{separator}***"
    _, at, place = rest.rpartition("@")
    place = place.partition("?")[0]
    return f"{scheme}{separator}{'***@' if at else ''}{place}" if separator else "***"


def open_client(url: str, timeouts: Timeouts) -> RedisClient:
    """A client that is not connected yet, and tries nothing twice by itself. Raises UsageError for
    a URL that is none, and where the driver is not installed."""
    wrong = UsageError(f"{shown_url(url)!r} is no Redis URL; {_FORM}")
    if not _has_form(url):
        raise wrong
    try:
        # Only where there is a URL: neither builds nor laptops need the driver.
        from redis import ConnectionPool, Redis, RedisError
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ModuleNotFoundError:
        raise UsageError("Redis needs its driver: pip install 'tunebook[redis]'") from None
    try:
        pool = ConnectionPool.from_url(url, protocol=2)
        # Whatever the URL says: nobody is to wait for Redis.
        pool.connection_kwargs.update(
            socket_connect_timeout=timeouts.connect,
            socket_timeout=timeouts.answer,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            decode_responses=False,
        )
        if "path" in pool.connection_kwargs:
            del pool.connection_kwargs["socket_connect_timeout"]
            del pool.connection_kwargs["socket_keepalive"]
        # Refuses options that there are not, which else nobody would hear of before it connects.
        pool.connection_class(**pool.connection_kwargs)
    except (ValueError, TypeError, AttributeError, OSError, RedisError):
        raise wrong from None
    return Redis(connection_pool=pool)


def explain(error: Exception, name: str) -> str:
    """What an error of the driver means, in a line; `name` is the URL without its password."""
    text = f"{type(error).__name__}: {error}"
    for part, meaning in _FAULTS:
        if part in text:
            return f"Redis at {name} {meaning}"
    return f"Redis at {name} failed: {' '.join(text.split())[:300]}"


def _has_form(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port_is_good = parts.port is None or parts.port > 0
    except ValueError:
        return False
    if parts.scheme not in _SCHEMES or not port_is_good:
        return False
    if parts.scheme == "unix":
        return bool(parts.path)
    return bool(parts.hostname) and re.fullmatch(r"/?\d{0,5}", parts.path) is not None
