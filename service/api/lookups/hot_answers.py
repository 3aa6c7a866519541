"""Replies to look-ups that replicas share, so that each is made once for all of them."""

from __future__ import annotations

import json
from typing import Any

from tunebook.cache.live.live_counts import FOUND, MISSING, LiveCounts
from tunebook.cache.live.shared_answers import SharedAnswers
from tunebook.cache.storage.revisions import Revision
from tunebook.service.api.lookups.lookup_counter import Tally
from tunebook.service.api.lookups.remembered_answers import LookupReply


class HotAnswers:
    """Replies of which all keys hit, by the name that they are remembered by.

    Only where the database is a server: a file is read as quickly as Redis answers.
    """

    def __init__(self, shared: SharedAnswers, counts: LiveCounts) -> None:
        self._shared = shared
        self._counts = counts

    @property
    def are_there(self) -> bool:
        """Whether it is worth while to ask for any."""
        return self._shared.is_there

    def get(self, name: bytes, now: Revision) -> LookupReply | None:
        """The reply that another replica has made at this revision, if any. Waits briefly."""
        found = self._shared.get(name, now.schedules)
        self._counts.asked_for_answer(MISSING if found is None else FOUND)
        return None if found is None else _unpacked(found, now)

    def put(self, name: bytes, reply: LookupReply) -> None:
        """Keeps a reply for others. Misses are explained by all that is stored, which nobody can
        tell to be unchanged: a reply with any is kept by nobody."""
        if not reply.tally.misses:
            self._shared.put(name, reply.revision.schedules, _packed(reply))


def _packed(reply: LookupReply) -> bytes:
    head = {
        "status": reply.status,
        "media_type": reply.media_type,
        "pipeline": reply.pipeline,
        "counted": reply.counted,
        "target": reply.tally.target,
        "outcomes": reply.tally.outcomes,
    }
    return json.dumps(head).encode() + b"\n" + reply.body


def _unpacked(packed: bytes, now: Revision) -> LookupReply:
    """What `_packed` has made: its seal says so."""
    head, _, body = packed.partition(b"\n")
    told: dict[str, Any] = json.loads(head)
    outcomes = tuple((str(name), int(count)) for name, count in told["outcomes"])
    return LookupReply(
        status=told["status"],
        media_type=told["media_type"],
        body=body,
        pipeline=told["pipeline"],
        counted=told["counted"],
        tally=Tally(told["target"], outcomes),
        revision=now,
    )
