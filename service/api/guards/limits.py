"""How large the body of a request may be, as it is sent and when it is unpacked."""

from __future__ import annotations

import asyncio
import zlib

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tunebook.service.api.documents.bodies import BodyReader, HeldBodies, check_size
from tunebook.service.api.problems.problems import Problem
from tunebook.service.api.settings import Limits

_GZIP_WINDOW = zlib.MAX_WBITS | 16


class BodyLimits:
    """Reads a body before anything else sees the request, and hands it on unpacked.

    Models and archives are not read here but handed on as they arrive, and counted.
    """

    def __init__(self, app: ASGIApp, *, limits: Limits) -> None:
        self._app = app
        self._limits = limits
        self._held = HeldBodies(limits.held_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        length, encoding = _declared(scope)
        streamed = self._streamed_bytes(scope)
        if streamed is not None:
            _refuse_packed(encoding)
            receive = _in_time(_counted(receive, length, streamed), self._limits.body_seconds)
            await self._app(scope, receive, send)
            return
        if encoding not in ("", "identity", "gzip"):
            raise _unsupported(encoding)
        limit = self._body_bytes(scope)
        check_size(length, limit)
        with BodyReader(self._held, limit) as reader:
            body = await reader.read(receive, self._limits.body_seconds)
            if body is None:
                return
            if encoding == "gzip":
                body = unpack(body, limit)
                reader.add(len(body))
                scope = {**scope, "headers": _unpacked_headers(scope, len(body))}
            await self._app(scope, _replay(body, receive), send)

    def _body_bytes(self, scope: Scope) -> int:
        """How large a body may be that is read here: little, from whoever shows no token."""
        known = scope.get("state", {}).get("token") is not None
        return self._limits.body_bytes if known else self._limits.unknown_body_bytes

    def _streamed_bytes(self, scope: Scope) -> int | None:
        """How large a body may be that is handed on as it arrives; None for any other."""
        if scope["method"] == "PUT" and scope["path"].startswith("/api/v1/models/"):
            return self._limits.model_bytes
        if scope["method"] == "POST" and scope["path"] == "/api/v1/import":
            return self._limits.import_bytes
        return None


def unpack(packed: bytes, limit: int) -> bytes:
    """What a gzip body holds; never unpacks more than `limit` bytes. Raises Problem."""
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    try:
        body = unpacker.decompress(packed, limit + 1)
    except zlib.error:
        raise Problem("invalid", "the body is no gzip, as its Content-Encoding says") from None
    check_size(len(body), limit)
    if not unpacker.eof or unpacker.unused_data:
        raise Problem("invalid", "the gzip of the body is cut short, or more follows after it")
    return body


def _declared(scope: Scope) -> tuple[int, str]:
    """The size of the body where it is declared, else 0, and how it is packed."""
    length, encoding = 0, ""
    for name, value in scope["headers"]:
        if name == b"content-length":
            try:
                length = int(value)
            except ValueError:
                raise Problem("bad-request", "the Content-Length is no number") from None
        elif name == b"content-encoding":
            encoding = value.decode("latin-1").strip().lower()
    return length, encoding


def _unsupported(encoding: str) -> Problem:
    return Problem(
        "unsupported-media",
        f"the body is packed as {encoding[:40]}; send it with gzip, or as it is",
        headers={"Accept-Encoding": "gzip"},
    )


def _refuse_packed(encoding: str) -> None:
    if encoding not in ("", "identity"):
        raise Problem(
            "unsupported-media",
            "models and archives are sent as they are, without a Content-Encoding",
            headers={"Accept-Encoding": "identity"},
        )


def _replay(body: bytes, receive: Receive) -> Receive:
    """Gives the body once, and then whatever else arrives: that the client has gone."""
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _counted(receive: Receive, declared: int, limit: int) -> Receive:
    """Hands on what arrives, and refuses more than the limit."""
    check_size(declared, limit)
    size = 0

    async def receive_counted() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        check_size(size, limit)
        return message

    return receive_counted


def _in_time(receive: Receive, seconds: float) -> Receive:
    """Hands on what arrives, and gives up where nothing does for so long while there is more."""
    is_whole = False

    async def receive_in_time() -> Message:
        nonlocal is_whole
        if is_whole:
            return await receive()
        try:
            message = await asyncio.wait_for(receive(), seconds)
        except asyncio.TimeoutError:
            raise Problem(
                "request-timeout",
                f"nothing more of the body arrived within {seconds:g} s; send it again",
            ) from None
        is_whole = not message.get("more_body", False)
        return message

    return receive_in_time


def _unpacked_headers(scope: Scope, length: int) -> list[tuple[bytes, bytes]]:
    kept = [
        (name, value)
        for name, value in scope["headers"]
        if name not in (b"content-encoding", b"content-length", b"transfer-encoding")
    ]
    return [*kept, (b"content-length", str(length).encode())]
