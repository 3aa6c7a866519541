"""A coordinator behind its real web server, in a thread, and a reader of its streams of events."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tunebook.cache.access.tokens import Role
from tunebook.cache.live.live import Live
from tunebook.cache.store import Store
from tunebook.service.api.server import CoordinatorServer, Listening, make_server
from tunebook.service.api.settings import Settings
from tunebook.service.app import create_app

PATIENCE = 60
# Else a test that takes some seconds meets an event: that its job waits.
SELDOM_LOOKED_AT: dict[str, Any] = {"look_seconds": 3600}


@dataclass
class RunningCoordinator:
    """A coordinator that listens; `stop` ends it as a signal does."""

    url: str
    headers: dict[str, str]
    server: CoordinatorServer
    thread: threading.Thread

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=self.headers, timeout=PATIENCE)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


@contextmanager
def running_coordinator(
    store: Store, *, role: Role = Role.SUBMIT, live: Live | None = None, **settings: Any
) -> Iterator[RunningCoordinator]:
    listening = Listening("127.0.0.1", 0)
    with listening.bind() as bound:
        app = create_app(Settings(**settings), store, live=live)
        listens = threading.Event()
        server = make_server(app, listening, app.state.stopping, listens.set)
        # It would cut off what a pause of some seconds holds up.
        server.config.timeout_graceful_shutdown = PATIENCE
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            assert listens.wait(PATIENCE)
            secret = store.tokens.create("tests", role).secret
            headers = {"Authorization": f"Bearer {secret}"}
            url = listening.url(bound.getsockname()[1])
            yield RunningCoordinator(url, headers, server, thread)
        finally:
            server.should_exit = True
            thread.join(PATIENCE)


@dataclass(frozen=True)
class ReceivedEvent:
    """An event as a client receives it: its id, its name, and its document."""

    id: int
    name: str
    document: dict[str, Any]


def received(lines: Iterator[str]) -> Iterator[ReceivedEvent]:
    """The events of a stream; comments and the time to wait before another try are no events."""
    fields: dict[str, str] = {}
    for line in lines:
        if line and not line.startswith((":", "retry:")):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif not line and fields:
            yield ReceivedEvent(int(fields["id"]), fields["event"], json.loads(fields["data"]))
            fields = {}
