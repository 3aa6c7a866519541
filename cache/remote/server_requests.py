"""Requests to a coordinator, made again where that is safe and may help."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from tunebook.cache.errors import ServerError, TunebookError, UnreachableError, UsageError
from tunebook.cache.remote.retries import BUSY, GOING_AWAY, Retries, Waits
from tunebook.cache.remote.server_problems import problem_error
from tunebook.cache.remote.token_file import is_loopback

_log = logging.getLogger(__name__)

API = "/api/v1"
# Reading is that of a look-up of thousands of keys, all explained.
_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
# In the text of a fault: a certificate is not trusted for being shown again.
_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

Content = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class _Replica:
    """One coordinator, and the connections to it that are kept."""

    url: str
    http: httpx.Client


@dataclass(frozen=True)
class _Attempt:
    """What came of asking a replica once: an answer, or a fault on the way."""

    replica: _Replica
    response: httpx.Response | None = None
    fault: httpx.RequestError | None = None

    @property
    def is_busy(self) -> bool:
        """Whether it was refused for its rate."""
        return self.response is not None and self.response.status_code == BUSY

    def asked_pause(self, retries: Retries) -> float | None:
        """How many seconds the server wants to be left alone, where it says so."""
        if self.response is None:
            return None
        return retries.asked_pause(self.response.headers.get("Retry-After"))

    def leave(self) -> None:
        """Lets go of the answer, which nobody is going to read."""
        if self.response is not None:
            self.response.close()

    def may_be_repeated(self, repeatable: bool) -> bool:
        """Whether another attempt is safe, and may help."""
        if self.response is not None:
            return self.is_busy or (repeatable and self.response.status_code in GOING_AWAY)
        return (
            isinstance(self.fault, httpx.TransportError)
            and (repeatable or isinstance(self.fault, _UNSENT))
            and _UNTRUSTED not in str(self.fault)
        )

    def checked(self) -> httpx.Response:
        """The answer, if it is a success. Raises what it stands for else."""
        if self.response is None or not self.response.is_success:
            raise self.error()
        return self.response

    def error(self) -> TunebookError:
        """What an answer that is no success stands for, or a fault; the answer is over then."""
        url = self.replica.url
        if self.response is None:
            return _unreachable(url, self.fault)
        try:
            content = self.response.read()
        except httpx.RequestError as error:
            return _unreachable(url, error)
        finally:
            self.response.close()
        if self.response.is_redirect:
            elsewhere = self.response.headers.get("Location", "another address")
            return ServerError(f"{url} sends to {elsewhere}; give the coordinator's own address")
        return problem_error(url, self.response.status_code, content)


class ServerRequests:
    """Requests to a coordinator, over connections that are kept; safe to share between threads.

    Of several, which are replicas with one database, the one that answered last is asked, and where
    it does not answer the next. Whatever is no success is raised, as server_problems.py says. What
    was perhaps acted upon is only made again where it is `repeatable`; what never left, or was
    refused for its rate, always.
    """

    def __init__(
        self,
        urls: Sequence[str],
        token: Callable[[str], str | None],
        retries: Retries,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`urls` as `checked_urls` gives them; `token` gives the one for each."""
        authorities = _trusted_authorities()
        self._retries = retries
        self._replicas = [
            _Replica(url, _connections(url, token(url), authorities, transport)) for url in urls
        ]
        self._asked = 0

    @property
    def url(self) -> str:
        """The address of the coordinator that is asked."""
        return self._replicas[self._asked].url

    def close(self) -> None:
        """Closes the connections."""
        for replica in self._replicas:
            replica.http.close()

    def send(
        self, method: str, path: str, content: Content = dict, *, repeatable: bool
    ) -> httpx.Response:
        """The answer to a request for a path below the API; `content` makes what is sent, anew for
        each attempt."""
        return self._last_attempt(method, path, content, repeatable, stream=False).checked()

    def pieces(self, path: str) -> Iterator[bytes]:
        """What a GET for a path below the API is answered with, as it arrives; an answer that
        breaks off is not asked for again."""
        attempt = self._last_attempt("GET", path, dict, repeatable=True, stream=True)
        response = attempt.checked()
        try:
            yield from response.iter_bytes()
        except httpx.RequestError as error:
            raise _unreachable(attempt.replica.url, error) from None
        finally:
            response.close()

    def _last_attempt(
        self, method: str, path: str, content: Content, repeatable: bool, *, stream: bool
    ) -> _Attempt:
        waits, failed = Waits(self._retries), 0
        while True:
            number = self._asked
            attempt = _ask(self._replicas[number], method, path, content, stream)
            if not attempt.may_be_repeated(repeatable):
                return attempt
            if not attempt.is_busy:
                failed += 1
                self._asked = (number + 1) % len(self._replicas)
            # Another replica may answer at once; who asks too often is not to ask another instead.
            one_is_left = not attempt.is_busy and failed % len(self._replicas)
            if not one_is_left and not waits.wait(attempt.asked_pause(self._retries)):
                return attempt
            if waits.made == 1 and not one_is_left and not attempt.is_busy:
                # Whoever sits in front of a command may have given another address.
                _log.warning("%s; trying again", attempt.error())
            attempt.leave()


def _ask(replica: _Replica, method: str, path: str, content: Content, stream: bool) -> _Attempt:
    try:
        request = replica.http.build_request(method, replica.url + API + path, **content())
        return _Attempt(replica, replica.http.send(request, stream=stream))
    except httpx.RequestError as error:
        return _Attempt(replica, fault=error)


def _unreachable(url: str, fault: httpx.RequestError | None) -> UnreachableError:
    said = " ".join(str(fault).split()) or type(fault).__name__
    advice = "check the address, and that it runs"
    if _UNTRUSTED in said:
        advice = "check the address, or name its authority's certificate in SSL_CERT_FILE"
    return UnreachableError(f"the coordinator at {url} does not answer: {said}; {advice}")


def _connections(
    url: str,
    token: str | None,
    authorities: ssl.SSLContext,
    transport: httpx.BaseTransport | None,
) -> httpx.Client:
    return httpx.Client(
        headers={"Authorization": f"Bearer {token}"} if token else {},
        timeout=_TIMEOUT,
        # A redirection elsewhere would take the token along.
        follow_redirects=False,
        # No proxy leads to this machine.
        trust_env=not is_loopback(urlsplit(url).hostname or ""),
        verify=authorities,
        transport=transport,
    )


def _trusted_authorities() -> ssl.SSLContext:
    """The public authorities, those of this machine, since a lab has its own, and that of
    SSL_CERT_FILE in place of the public ones."""
    context = httpx.create_ssl_context()
    context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


def checked_urls(text: str) -> tuple[str, ...]:
    """The URLs of a coordinator's replicas, separated by commas, each once. Raises UsageError for
    what is none."""
    return tuple(dict.fromkeys(checked_url(one) for one in text.split(",")))


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
