"""Requests to a coordinator, made again where that is safe and may help."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from tunebook.cache.errors import ServerError, UnreachableError, UsageError
from tunebook.cache.remote.retries import BUSY, GOING_AWAY, Retries
from tunebook.cache.remote.server_problems import problem_error
from tunebook.cache.remote.token_file import is_loopback

API = "/api/v1"
# Reading is that of a look-up of thousands of keys, all explained.
_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

Content = Callable[[], Mapping[str, Any]]


class ServerRequests:
    """Requests to one coordinator, over connections that are kept; safe to share between threads.

    Whatever is no success is raised, as server_problems.py says. What was perhaps acted upon is
    only made again where it is `repeatable`; what never left, or was refused for its rate, always.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        retries: Retries,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Raises UsageError for what is no URL of a coordinator."""
        self.url = checked_url(url)
        self._retries = retries
        host = urlsplit(self.url).hostname or ""
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=_TIMEOUT,
            # A redirection elsewhere would take the token along.
            follow_redirects=False,
            # No proxy leads to this machine.
            trust_env=not is_loopback(host),
            verify=_trusted_authorities(),
            transport=transport,
        )

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def send(
        self, method: str, path: str, content: Content = dict, *, repeatable: bool
    ) -> httpx.Response:
        """The answer to a request for a path below the API; `content` makes what is sent, anew for
        each attempt."""
        response: httpx.Response | None = None
        fault: httpx.RequestError | None = None
        for attempt in range(self._retries.attempts):
            pause = self._retries.pause(attempt)
            try:
                response = self._http.request(method, self.url + API + path, **content())
            except httpx.RequestError as error:
                response, fault = None, error
                if not isinstance(error, httpx.TransportError) or not (
                    repeatable or isinstance(error, _UNSENT)
                ):
                    break
            else:
                if not _may_help(response.status_code, repeatable):
                    break
                asked = self._retries.asked_pause(response.headers.get("Retry-After"))
                if asked is not None and asked > self._retries.longest_wait:
                    break
                pause = pause if asked is None else asked
            if attempt + 1 < self._retries.attempts:
                self._retries.sleep(pause)
        if response is None:
            raise self._unreachable(fault)
        return self._checked(response)

    def pieces(self, path: str) -> Iterator[bytes]:
        """What a GET for a path below the API is answered with, as it arrives; asked once."""
        try:
            with self._http.stream("GET", self.url + API + path) as response:
                if not response.is_success:
                    response.read()
                yield from self._checked(response).iter_bytes()
        except httpx.RequestError as error:
            raise self._unreachable(error) from None

    def _checked(self, response: httpx.Response) -> httpx.Response:
        if response.is_success:
            return response
        if response.is_redirect:
            elsewhere = response.headers.get("Location", "another address")
            raise ServerError(
                f"{self.url} sends to {elsewhere}; give the coordinator's own address"
            )
        raise problem_error(self.url, response.status_code, response.content)

    def _unreachable(self, fault: httpx.RequestError | None) -> UnreachableError:
        said = " ".join(str(fault).split()) or type(fault).__name__
        advice = "check the address, and that it runs"
        if "CERTIFICATE_VERIFY_FAILED" in said:
            advice = "check the address, or name its authority's certificate in SSL_CERT_FILE"
        return UnreachableError(f"the coordinator at {self.url} does not answer: {said}; {advice}")


def _trusted_authorities() -> ssl.SSLContext:
    """The public authorities, those of this machine, since a lab has its own, and that of
    SSL_CERT_FILE in place of the public ones."""
    context = httpx.create_ssl_context()
    context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


def checked_url(text: str) -> str:
    """The URL of a coordinator without a slash at its end. Raises UsageError for what is none."""
    url = text.strip().rstrip("/").removesuffix(API)
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname)
        # Raises ValueError for one that is no number.
        valid = valid and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment or parts.username is not None:
        raise UsageError(
            f"{text!r} is no address of a coordinator; give one such as https://tunebook.example"
        )
    return url


def _may_help(status: int, repeatable: bool) -> bool:
    return status == BUSY or (repeatable and status in GOING_AWAY)
