"""What keeps pages elsewhere from using the coordinator through somebody's browser.

A page anywhere can make a browser send requests to addresses inside of a lab. It cannot choose
their Host (unless its own name suddenly stands for our address: DNS rebinding), their Origin, or,
without being asked by us first, their content type: these three are checked.
"""

from __future__ import annotations

import ipaddress
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tunebook.service.api.guards.authentication import API
from tunebook.service.api.problems.problems import Problem
from tunebook.service.api.settings import Settings

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_REMEMBERED_HOSTS = 256
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]*)?")
_JSON = "application/json"
_BINARY = "application/octet-stream"
# Everything else takes JSON. No plain form of a page can send either.
_OTHER_CONTENT = {
    ("PUT", "/api/v1/models/"): _BINARY,
    ("POST", "/api/v1/import"): "application/x-tar",
}
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
# Where a route says nothing else: nothing is to be run, framed or kept.
_DEFAULTS = [
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
    # Not for pages with forms: a browser would send those without their origin.
    (b"referrer-policy", b"no-referrer"),
]


class SecurityHeaders:
    """Adds what tells browsers to be careful; policies and caching that a route names stay."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                names = {name for name, _ in given}
                defaults = [default for default in _DEFAULTS if default[0] not in names]
                message["headers"] = [*given, *_HEADERS, *defaults]
            await send(message)

        await self._app(scope, receive, send_with_headers)


class ForeignRequests:
    """Refuses requests for another host, from another origin, and bodies that a plain form could
    have sent."""

    def __init__(self, app: ASGIApp, *, settings: Settings) -> None:
        self._app = app
        self._names = frozenset(map(_normal, settings.names))
        self._any_address = settings.any_address
        self._checked: dict[bytes, bool] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self._check(scope)
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        hosts, origin, content_type, has_body = [], None, b"", False
        for name, value in scope["headers"]:
            if name == b"host":
                hosts.append(value)
            elif name == b"origin":
                origin = value
            elif name == b"content-type":
                content_type = value
            elif name == b"transfer-encoding" or (name == b"content-length" and value != b"0"):
                has_body = True
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            raise _foreign_host(hosts)
        if origin is not None and not _is_same(origin, hosts[0]):
            raise Problem(
                "foreign-origin",
                f"a page of {_shown(origin)} may not ask here; only the coordinator's own may",
            )
        if scope["method"] in _SAFE_METHODS:
            return
        if not scope["path"].startswith(API):
            if origin is None:
                raise Problem(
                    "cross-site",
                    "the request says of no page that it came from there; programs use /api/v1",
                )
        elif has_body:
            _check_content(scope, content_type)

    def _is_ours(self, host: bytes) -> bool:
        known = self._checked.get(host)
        if known is None:
            parts = _HOST.fullmatch(host.decode("latin-1"))
            known = parts is not None and self._may_be_called(_normal(parts["name"]))
            if len(self._checked) < _REMEMBERED_HOSTS:
                self._checked[host] = known
        return known

    def _may_be_called(self, name: str) -> bool:
        return name in self._names or (self._any_address and _is_address(name))


def _normal(name: str) -> str:
    return name.strip("[]").rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_same(origin: bytes, host: bytes) -> bool:
    """Whether an origin is that of the host that was asked. The scheme is the proxy's affair."""
    scheme, separator, place = origin.lower().partition(b"://")
    return bool(separator) and scheme in (b"http", b"https") and place == host.lower()


def _foreign_host(hosts: list[bytes]) -> Problem:
    asked = ", ".join(map(_shown, hosts)) or "none"
    return Problem(
        "foreign-host",
        f"the request is for the host {asked}, which is no name of this coordinator; use the "
        "address that it printed when it started, or start it with --name",
    )


def _shown(header: bytes) -> str:
    return header[:100].decode("latin-1")


def _check_content(scope: Scope, content_type: bytes) -> None:
    method, path = scope["method"], scope["path"]
    wanted = next(
        (
            kind
            for (one, prefix), kind in _OTHER_CONTENT.items()
            if method == one and path.startswith(prefix)
        ),
        _JSON,
    )
    given = content_type.partition(b";")[0].strip().lower().decode("latin-1")
    if given != wanted:
        raise Problem(
            "unsupported-media",
            f"the body is {given[:100] or 'of no stated type'}; send it with "
            f"`Content-Type: {wanted}`",
            headers={"Accept": wanted},
        )
