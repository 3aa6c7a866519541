"""Who asks: a bearer token, known from a copy in memory that a revocation ends at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tunebook.cache.access.hashed_secrets import secret_hash
from tunebook.cache.access.tokens import Token, Tokens
from tunebook.cache.storage.revisions import Revision, RevisionWatch
from tunebook.service.api.guards.shared_rate import SharedRate
from tunebook.service.api.problems.problems import Problem

API = "/api/"
# The address of what the API looks like is no secret.
OPENAPI = "/api/v1/openapi.json"
_LONGEST_SECRET = 200
_REMEMBERED_TOKENS = 10_000
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="tunebook"'}


class KnownTokens:
    """Tokens by the hash of their secret, as they were at one revision of all tokens."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._revision: int | None = None
        self._known: OrderedDict[str, Token] = OrderedDict()

    def remembered(self, sha256: str, revision: int) -> Token | None:
        """The token where it is remembered at this revision, which costs no question to the
        database."""
        if revision != self._revision:
            self._known.clear()
            self._revision = revision
        return self._known.get(sha256)

    async def find(self, sha256: str, revision: int) -> Token | None:
        """The token out of the database. What was read after a revision holds until it rises."""
        found = await run_in_threadpool(self._tokens.find, sha256)
        if found is not None and revision == self._revision:
            self._known[sha256] = found
            if len(self._known) > _REMEMBERED_TOKENS:
                self._known.popitem(last=False)
        return found


class Authentication:
    """Finds out who asks, holds everybody to a rate, and lets nobody unknown at the API.

    Leaves the token (or None) in the request's state as `token`, and the revision of the database
    at which it held as `revision`. What a token may do, each route says (`dependencies.require`).
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        tokens: Tokens,
        revisions: RevisionWatch,
        token_rate: SharedRate,
        address_rate: SharedRate,
    ) -> None:
        self._app = app
        self._known = KnownTokens(tokens)
        self._revisions = revisions
        self._token_rate = token_rate
        self._address_rate = address_rate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        secret = _bearer(scope)
        token = await self._identify(scope, secret)
        scope.setdefault("state", {})["token"] = token
        if secret is not None and token is not None:
            stream = _GuardedStream(send, lambda: self._is_good(secret))
            await stream.run(self._app, scope, receive)
            return
        if _needs_token(scope["path"]):
            raise _unauthorized("this needs a token: send it as `Authorization: Bearer tbk_...`")
        await self._app(scope, receive, send)

    async def _identify(self, scope: Scope, secret: str | None) -> Token | None:
        if secret is None:
            await self._hold_address(scope)
            return None
        revision = await self._revision()
        sha256 = secret_hash(secret)
        token = self._known.remembered(sha256, revision.tokens)
        if token is None:
            # Before the database is asked: whoever guesses is held to a rate.
            await self._hold_address(scope)
            token = await self._known.find(sha256, revision.tokens)
        if token is None:
            raise _unauthorized("this token is not known here; `tunebook token create` makes one")
        if token.revoked_at is not None:
            raise _unauthorized(f"the token {token.name!r} ({token.prefix}...) was revoked")
        wait = await self._token_rate.wait(token.id)
        if wait:
            raise _too_many(f"the token {token.name!r} asks too often", wait)
        scope.setdefault("state", {})["revision"] = revision
        return token

    async def _is_good(self, secret: str) -> bool:
        revision = await self._revision()
        sha256 = secret_hash(secret)
        token = self._known.remembered(sha256, revision.tokens)
        if token is None:
            token = await self._known.find(sha256, revision.tokens)
        return token is not None and token.revoked_at is None

    async def _revision(self) -> Revision:
        if self._revisions.is_quick:
            return self._revisions.now()
        return await run_in_threadpool(self._revisions.now)

    async def _hold_address(self, scope: Scope) -> None:
        client = scope.get("client")
        address = client[0] if client else ""
        wait = await self._address_rate.wait(address)
        if wait:
            raise _too_many(f"{address} asks too often without a good token", wait)


class _GuardedStream:
    """An answer that ends when its token is revoked: streams of events go on for hours."""

    def __init__(self, send: Send, is_good: Callable[[], Awaitable[bool]]) -> None:
        self._send = send
        self._is_good = is_good
        self._is_endless = False
        self._is_cut = False

    async def run(self, app: ASGIApp, scope: Scope, receive: Receive) -> None:
        try:
            await app(scope, receive, self._guarded_send)
        except Exception:
            if not self._is_cut:
                raise
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _guarded_send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            names = {name for name, _ in message.get("headers", ())}
            self._is_endless = b"content-length" not in names
        elif self._is_endless and message.get("more_body") and not await self._is_good():
            self._is_cut = True
            raise ConnectionAbortedError("the token of the request was revoked")
        await self._send(message)


def _needs_token(path: str) -> bool:
    return path.startswith(API) and path != OPENAPI


def _bearer(scope: Scope) -> str | None:
    """The secret of the Authorization header; None without such a header. Raises Problem for one
    of another kind where a token is needed, and ignores it elsewhere."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, secret = value.partition(b" ")
            if kind.lower() == b"bearer" and 0 < len(secret.strip()) <= _LONGEST_SECRET:
                return str(secret.strip().decode("latin-1"))
            if _needs_token(scope["path"]):
                raise _unauthorized(
                    "the header Authorization holds no token; send `Bearer tbk_...`"
                )
            return None
    return None


def _unauthorized(detail: str) -> Problem:
    return Problem("unauthorized", detail, headers=_CHALLENGE)


def _too_many(detail: str, wait: float) -> Problem:
    seconds = max(1, round(wait + 0.5))
    return Problem(
        "too-many-requests",
        f"{detail}; wait {seconds} s",
        headers={"Retry-After": str(seconds)},
    )
