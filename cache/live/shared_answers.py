"""Answers that one replica has made, for the others: in Redis, of one revision at a time."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

from tunebook.cache.live.live_counts import ANSWERS
from tunebook.cache.live.redis_client import RedisClient
from tunebook.cache.live.redis_link import RedisLink

LIMIT_BYTES = 64 * 2**20
# A model of a few hundred tasks takes about a megabyte.
_LARGEST_BYTES = 4 * 2**20
_KEPT_SECONDS = 600
_SEAL_BYTES = hashlib.sha256().digest_size

# A hash of the answers at one revision. What is older makes room at once for what is newer, and
# all of it where it would take too much: whatever still is of use comes again.
_PUT = """
local revision = tonumber(ARGV[1])
local kept = redis.call('HMGET', KEYS[1], 'revision', 'size')
-- What is no number somebody else has written: it makes room.
local stored, size = tonumber(kept[1] or '') or -1, tonumber(kept[2] or '') or 0
if stored > revision then
  return 0
end
if stored < revision or size + #ARGV[3] > tonumber(ARGV[4]) then
  redis.call('UNLINK', KEYS[1])
  size = 0
end
if redis.call('HSETNX', KEYS[1], ARGV[2], ARGV[3]) == 1 then
  size = size + #ARGV[3]
end
redis.call('HSET', KEYS[1], 'revision', revision, 'size', size)
redis.call('EXPIRE', KEYS[1], ARGV[5])
return 1
"""


class SharedAnswers:
    """Answers in Redis under a key, at most `limit` bytes of them, for some minutes.

    Each is sealed with a secret that Redis does not have, together with its name and revision:
    whoever can write to Redis can take answers away, and make none. Without a link, or while Redis
    is away, there are none.
    """

    def __init__(
        self,
        link: RedisLink | None = None,
        key: str = "",
        secret: bytes = b"",
        *,
        limit: int = LIMIT_BYTES,
    ) -> None:
        self._link = link
        self._key = key
        self._secret = secret
        self._limit = limit
        self._script: Any = None

    @property
    def is_there(self) -> bool:
        """Whether it is worth while to ask."""
        return self._link is not None and self._link.is_up

    def get(self, name: bytes, revision: int) -> bytes | None:
        """The answer of this name at a revision, if somebody has put it there. Waits for Redis
        briefly."""
        if self._link is None:
            return None
        fields = ("revision", name.hex())
        found = self._link.call(ANSWERS, lambda redis: redis.hmget(self._key, fields))
        if not found or found[1] is None or found[0] != str(revision).encode():
            return None
        seal, answer = found[1][:_SEAL_BYTES], found[1][_SEAL_BYTES:]
        if not hmac.compare_digest(seal, self._seal(name, revision, answer)):
            return None
        return bytes(answer)

    def put(self, name: bytes, revision: int, answer: bytes) -> None:
        """Keeps an answer for others, unless there are newer ones. Waits for Redis briefly."""
        if self._link is None or len(answer) > _LARGEST_BYTES:
            return
        sealed = self._seal(name, revision, answer) + answer
        arguments = (revision, name.hex(), sealed, self._limit, _KEPT_SECONDS)

        def ask(redis: RedisClient) -> bool:
            if self._script is None:
                self._script = redis.register_script(_PUT)
            self._script(keys=[self._key], args=arguments)
            return True

        self._link.call(ANSWERS, ask)

    def _seal(self, name: bytes, revision: int, answer: bytes) -> bytes:
        told = b"%b %d " % (name, revision)
        return hmac.digest(self._secret, told + answer, "sha256")
