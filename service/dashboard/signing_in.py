"""Signing in with a token, and out: cookies that scripts cannot read, and forms nobody else sends.

A form carries a code that belongs to the cookie of the browser that got the page: to the session
of one that is signed in, and before that to a cookie of its own, so that another page can neither
act for somebody nor sign them in as somebody else.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from datetime import timedelta
from urllib.parse import parse_qs

from fastapi import Request, Response

from tunebook.service.api.problems.problems import Problem

SESSION_LIFETIME = timedelta(hours=12)
LONGEST_FORM = 4096
_FORM_TYPE = "application/x-www-form-urlencoded"
_CODE_BYTES = 32
_PURPOSE = b"tunebook form"
_SESSION = "tunebook-session"
_VISITOR = "tunebook-visitor"
# Of this page's own addresses: one slash, then nothing that a browser takes for a host.
_OWN_ADDRESS = re.compile(r"/(?![/\\])[\x21-\x7e]*")


class Cookies:
    """The cookies of the pages. Where browsers come by TLS their names say so (`__Host-`): no
    other host, and no plain connection, can set them."""

    def __init__(self, *, secure: bool) -> None:
        self._secure = secure
        self._lead = "__Host-" if secure else ""

    def session(self, request: Request) -> str:
        """The secret of the session; empty where there is none."""
        return request.cookies.get(self._lead + _SESSION, "")

    def visitor(self, request: Request) -> str:
        """The secret of a browser that is not signed in; empty where there is none yet."""
        return request.cookies.get(self._lead + _VISITOR, "")

    def keep_session(self, response: Response, secret: str) -> None:
        self._set(response, _SESSION, secret)
        self._forget(response, _VISITOR)

    def keep_visitor(self, response: Response, secret: str) -> None:
        self._set(response, _VISITOR, secret)

    def forget_session(self, response: Response) -> None:
        self._forget(response, _SESSION)

    def _set(self, response: Response, name: str, value: str) -> None:
        # Without an age: gone when the browser closes.
        response.set_cookie(
            self._lead + name,
            value,
            path="/",
            secure=self._secure,
            httponly=True,
            samesite="strict",
        )

    def _forget(self, response: Response, name: str) -> None:
        response.delete_cookie(
            self._lead + name, path="/", secure=self._secure, httponly=True, samesite="strict"
        )


def new_visitor() -> str:
    """A secret for a browser that was never here."""
    return secrets.token_urlsafe(_CODE_BYTES)


def form_code(secret: str) -> str:
    """The code of the forms that a browser with this cookie gets."""
    return hmac.new(secret.encode(), _PURPOSE, hashlib.sha256).hexdigest()


async def read_form(request: Request, secret: str) -> dict[str, str]:
    """The fields of a form that our own page sent to the browser with this secret. Raises Problem
    for one that anything else may have sent. (Forms from other origins do not come this far:
    `tunebook.service.api.guards.security` refuses them.)"""
    fields = _fields(request, await _body(request))
    code = fields.get("csrf", "")
    if not secret or not hmac.compare_digest(code.encode(), form_code(secret).encode()):
        raise Problem(
            "cross-site",
            "the form does not come from a page that this browser got here; load the page again",
        )
    return fields


def own_address(asked: str) -> str:
    """Where to go after signing in: an address of ours, else the first page."""
    return asked if _OWN_ADDRESS.fullmatch(asked) else "/"


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_FORM:
            raise Problem("too-large", f"a form has at most {LONGEST_FORM} bytes")
    return bytes(body)


def _fields(request: Request, body: bytes) -> dict[str, str]:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM_TYPE:
        raise Problem("unsupported-media", f"a form is sent as {_FORM_TYPE}")
    read = parse_qs(body.decode("latin-1"), keep_blank_values=True, errors="replace")
    return {name: values[-1] for name, values in read.items()}
