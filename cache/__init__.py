"""What is stored and asked for.

Names are imported from their modules: who needs only an error or a key loads no database. `connect`
loads what it needs when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tunebook.cache.remote.schedule_cache import ScheduleCache


def connect(url_or_path: str, token: str | None = None) -> ScheduleCache:
    """Opens the cache that a build takes its schedules from: a coordinator (`https://...`), or a
    database, by the path of its file or its own URL, which is only read.

    Without a token that of a coordinator is the one in TUNEBOOK_TOKEN, or the one that it left for
    its user on this machine. Raises UsageError and DatabaseError.
    """
    if url_or_path.startswith(("http://", "https://")):
        from tunebook.cache.remote.client import Client

        return Client(url_or_path, token)
    from tunebook.cache.store import Store

    return Store.open(url_or_path, read_only=True)
