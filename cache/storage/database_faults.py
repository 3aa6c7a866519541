"""What a database driver's error means, in one line that says what to do next."""

from __future__ import annotations

from tunebook.cache.errors import DatabaseError

# (what the driver's text holds, what it means); the first that fits is told.
_FAULTS = (
    ("readonly database", "is read-only; make it writable, or give another one with --db"),
    ("database or disk is full", "has no room left on its disk; free some, then run again"),
    ("No space left", "has no room left on its disk; free some, then run again"),
    ("database is locked", "is locked by another process for too long; run again when it is done"),
    ("file is not a database", "is not a database; give another path with --db"),
    ("malformed", "is damaged; restore it from a backup, or give another one with --db"),
    ("unable to open database file", "cannot be opened; check the path and its permissions"),
    ("disk I/O error", "cannot be read or written (disk I/O error); check its disk"),
    ("permission denied", "does not permit this; check the permissions of its user"),
    ("read-only transaction", "is read-only; give one that may be written with --db"),
    ("password authentication failed", "refuses the user or password; check the URL"),
    ("due to lock timeout", "was kept locked by another process for too long; run again"),
    ("due to statement timeout", "took too long to answer; look at its load, then run again"),
    ("deadlock detected", "had two writers that waited for each other; run again"),
    ("the database system is", "is starting or stopping; run again once it is up"),
    ("terminating connection", "has closed the connection; run again once it is up"),
    ("closed the connection", "has closed the connection; run again once it is up"),
    ("connection is closed", "has closed the connection; run again once it is up"),
    ("connection is lost", "has closed the connection; run again once it is up"),
    ("too many clients", "takes no more connections; raise its max_connections"),
    ("remaining connection slots", "takes no more connections; raise its max_connections"),
    ("timeout expired", "cannot be reached: it does not answer in time; check the server"),
    ("Connection refused", "cannot be reached; check that the server runs at that address"),
    ("connection failed", "cannot be reached; check the address in the URL and the server"),
    ("connection is bad", "cannot be reached; check the address in the URL and the server"),
    ("failed to resolve host", "cannot be reached: no such host; check the URL"),
    ("could not translate host name", "cannot be reached: no such host; check the URL"),
)


def explain(error: Exception, name: str) -> DatabaseError:
    """The one line for a driver's error; `name` is the database's path or URL without password."""
    text = str(getattr(error, "orig", None) or error)
    for part, meaning in _FAULTS:
        if part.lower() in text.lower():
            return DatabaseError(f"the database {name} {meaning}")
    return DatabaseError(f"the database {name} failed: {' '.join(text.split())[:300]}")
