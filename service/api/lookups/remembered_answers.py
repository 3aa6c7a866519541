"""Answers to look-ups that are kept in memory for as long as they hold."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass

from tunebook.cache.storage.revisions import Revision
from tunebook.service.api.lookups.lookup_counter import Tally

LIMIT_BYTES = 256 * 2**20
# Of an entry beside its body: the tally, the hash, what the tables themselves take.
_OVERHEAD = 2_000
_OF_A_MISS = 3_000


@dataclass(frozen=True)
class LookupReply:
    """An answer as it is sent, what it counts as if it does, and the revision that it was not older
    than."""

    status: int
    media_type: str
    body: bytes
    pipeline: str
    counted: bool
    tally: Tally
    revision: Revision

    def holds(self, now: Revision) -> bool:
        """Hits hold while nothing changed of what is served. A miss is explained by all that is
        stored, so it holds only while nothing changed at all."""
        if now.schedules != self.revision.schedules:
            return False
        if not self.tally.misses:
            return True
        return now.everything is not None and now.everything == self.revision.everything

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes."""
        return _OVERHEAD + len(self.body) + _OF_A_MISS * len(self.tally.misses)


class RememberedAnswers:
    """Replies by the hash of the request's body: whoever asks the same is told the same.

    They take at most `limit` bytes; those that were asked for longest ago go first. Not for several
    threads at once.
    """

    def __init__(self, limit: int = LIMIT_BYTES) -> None:
        self._limit = limit
        self._replies: OrderedDict[bytes, LookupReply] = OrderedDict()
        self._size = 0

    @property
    def size(self) -> int:
        """About how many bytes of memory the replies take."""
        return self._size

    @staticmethod
    def name(body: bytes) -> bytes:
        """What a request is remembered by."""
        return hashlib.sha256(body).digest()

    def get(self, name: bytes, now: Revision) -> LookupReply | None:
        """The reply, if it is there and holds; one that holds no more goes."""
        reply = self._replies.get(name)
        if reply is None:
            return None
        if not reply.holds(now):
            self._forget(name)
            return None
        self._replies.move_to_end(name)
        return reply

    def put(self, name: bytes, reply: LookupReply) -> None:
        """Keeps a reply; one that is larger than all may be is not kept."""
        self._forget(name)
        if reply.size > self._limit:
            return
        self._replies[name] = reply
        self._size += reply.size
        while self._size > self._limit:
            self._forget(next(iter(self._replies)))

    def _forget(self, name: bytes) -> None:
        reply = self._replies.pop(name, None)
        if reply is not None:
            self._size -= reply.size
