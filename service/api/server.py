"""The web server around the application: where it listens, and how it stops."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from tunebook.cache.errors import ServerError, UsageError
from tunebook.cache.remote.token_file import is_loopback

# What is still being answered after so long is cut off when the coordinator stops.
_STOP_SECONDS = 3
_EVERY_ADDRESS = ("0.0.0.0", "::", "")
_WAITING_CONNECTIONS = 256
# Clients that keep connections give them up earlier than this: else a request could meet its end.
_IDLE_SECONDS = 30


@dataclass(frozen=True)
class Listening:
    """Where to listen. With a certificate by TLS; `proxies` are the addresses of the proxies that
    may say who a request came from, where there is one in front."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False
    proxies: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether nobody but this machine reaches it."""
        return is_loopback(self.host)

    def check(self) -> None:
        """Raises UsageError for what must not be, and ServerError for a certificate that cannot be
        used."""
        if (self.certificate is None) != (self.key is None):
            raise UsageError("--tls-cert and --tls-key belong together: give both, or none")
        if self.certificate is not None and self.key is not None:
            _check_certificate(self.certificate, self.key)
        elif not self.is_local and not self.behind_proxy:
            raise UsageError(
                f"{self.host} is reached from other machines, where tokens would travel in the "
                "clear; give --tls-cert and --tls-key, or --behind-proxy where a proxy in front "
                "does TLS"
            )

    def bind(self) -> socket.socket:
        """A socket that is bound and does not listen yet. Raises ServerError."""
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
        except (OSError, UnicodeError):
            raise ServerError(
                f"there is no address {self.host} on this machine; give --host one that it has"
            ) from None
        bound = socket.socket(family, kind, protocol)
        try:
            # A port whose last connections still fade away may be had again at once.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(_WAITING_CONNECTIONS)
        except OSError as error:
            bound.close()
            raise self._cannot_listen(error) from None
        return bound

    def url(self, port: int) -> str:
        """The address to use it at, with the port that it got."""
        scheme = "http" if self.certificate is None else "https"
        host = socket.gethostname() if self.host in _EVERY_ADDRESS else self.host
        host = f"[{host}]" if ":" in host else host
        return f"{scheme}://{host}:{port}"

    def _cannot_listen(self, error: OSError) -> ServerError:
        place = f"port {self.port} of {self.host}"
        if error.errno == errno.EADDRINUSE:
            return ServerError(
                f"{place} is in use by another program; stop that, or give another --port"
            )
        if error.errno == errno.EACCES:
            return ServerError(f"{place} is not for this user; give a --port above 1023")
        return ServerError(f"{place} cannot be listened at: {error.strerror}; give another --host")


class CoordinatorServer(uvicorn.Server):
    """Tells when it listens, and tells those who stream to end when it stops: a web server would
    wait for them first, and they for nothing."""

    def __init__(
        self, config: uvicorn.Config, stopping: asyncio.Event, started: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._stopping = stopping
        self._tell_started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and not self.should_exit:
            self._tell_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.set()
        await super().shutdown(sockets)


def make_server(
    app: ASGIApp, listening: Listening, stopping: asyncio.Event, started: Callable[[], None]
) -> CoordinatorServer:
    """The server of an application, to be run with a bound socket. `started` is called once it
    listens; `stopping` is set when it begins to stop."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
        proxy_headers=listening.behind_proxy,
        forwarded_allow_ips=list(listening.proxies),
        timeout_graceful_shutdown=_STOP_SECONDS,
        timeout_keep_alive=_IDLE_SECONDS,
    )
    return CoordinatorServer(config, stopping, started)


def _check_certificate(certificate: Path, key: Path) -> None:
    for path in (certificate, key):
        try:
            path.open("rb").close()
        except OSError as error:
            raise ServerError(f"{path} cannot be read: {error.strerror}; check the path") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without a password of our own OpenSSL would ask at the terminal.
        context.load_cert_chain(certificate, key, password=lambda: "")
    except (ssl.SSLError, ValueError, OSError) as error:
        reason = getattr(error, "reason", None) or str(error)
        raise ServerError(
            f"{certificate} and {key} are no certificate and its key ({reason}); give them as PEM, "
            "the key without a password"
        ) from None
