"""`tunebook serve`: the coordinator."""

from __future__ import annotations

import shlex
import socket
from contextlib import closing, suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tunebook.cache.errors import ExitCode, ServerError
from tunebook.cache.live.live import Live
from tunebook.cache.store import Store
from tunebook.service.commands.options import DatabaseUrl, RedisUrl, Tracker, open_store
from tunebook.service.mending import database_to_name
from tunebook.service.output import print_text

if TYPE_CHECKING:
    from tunebook.service.api.processes.worker_processes import WorkerProcesses
    from tunebook.service.api.server import Listening
    from tunebook.service.api.settings import Settings

DEFAULT_PORT = 8470


def serve(
    host: Annotated[str, typer.Option("--host", help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")
    ] = DEFAULT_PORT,
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--name",
            metavar="HOST",
            help="A host name that it is reached under, as behind a proxy; repeatable.",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="PEM", help="Its certificate, for TLS.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="PEM", help="The certificate's key.")
    ] = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A proxy in front of it does TLS.")
    ] = False,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--proxy",
            metavar="ADDRESS",
            help="The proxy's address, whose X-Forwarded-For is believed; repeatable. Default: "
            "this machine.",
        ),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(
            "--models",
            metavar="FOLDER|URL",
            help="Where uploaded models lie: a folder, or object storage as fsspec names it. "
            "Default: in your data folder.",
        ),
    ] = None,
    pipeline: Annotated[
        list[str] | None,
        typer.Option(
            "--pipeline",
            metavar="NAME",
            help="A pipeline whose look-ups are counted by name, however many asked before it; "
            "repeatable.",
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option("--workers", min=0, max=64, help="Workers to run as child processes."),
    ] = 1,
    boards: Annotated[
        list[str] | None,
        typer.Option(
            "--boards",
            metavar="CLASS[@HOST:PORT]",
            help="Boards that the workers serve, as `tunebook worker` takes them; repeatable.",
        ),
    ] = None,
    tracker: Tracker = None,
    db: DatabaseUrl = None,
    redis: RedisUrl = None,
) -> int:
    """Serve schedules, jobs and the hit-rate page over HTTP, until it is stopped."""
    # Only here: no other command should wait for a web server's modules, or need them.
    from tunebook.service.api.server import Listening
    from tunebook.service.api.settings import LOOPBACK_NAMES, Settings

    listening = Listening(
        host, port, tls_cert, tls_key, behind_proxy, tuple(proxy or LOOPBACK_NAMES[1:])
    )
    listening.check()
    settings = Settings(
        names=_names(listening, name or []),
        any_address=not listening.is_local,
        secure=behind_proxy or tls_cert is not None,
        models=models,
        pipelines=tuple(pipeline or ()),
    )
    with open_store(db) as store:
        children = _workers(workers, db, redis, models, boards or [], tracker)
        live = Live(redis, store.place(), _seal(store)) if redis else Live(None)
        with live:
            _run(listening, settings, store, live, children, _token_command(db))
    return ExitCode.OK


def _run(
    listening: Listening,
    settings: Settings,
    store: Store,
    live: Live,
    workers: WorkerProcesses | None,
    token_command: str,
) -> None:
    """Runs the coordinator until SIGTERM or Ctrl-C. Raises ServerError when it cannot start."""
    from tunebook.service.api.guards.local_token import leave_local_token
    from tunebook.service.api.server import make_server
    from tunebook.service.app import create_app
    from tunebook.service.logs import log_as_json

    bound = listening.bind()
    port = bound.getsockname()[1]

    def tell_started() -> None:
        leave_local_token(store.tokens, port)
        print_text(f"Tunebook is at {listening.url(port)}")
        print_text(f"Its pages want a token: {token_command}")

    with closing(bound):
        app = create_app(settings, store, workers=workers, live=live)
        log_as_json()
        live.start()
        server = make_server(app, listening, app.state.stopping, tell_started)
        # The web server hands on a signal after it has followed it.
        with suppress(KeyboardInterrupt):
            server.run(sockets=[bound])
    # A second signal makes the web server leave out what it does at its end.
    if workers is not None:
        workers.stop()
    if not server.started:
        raise ServerError("the coordinator did not start; its log on stderr says why")


def _seal(store: Store) -> bytes:
    """What answers are sealed with that replicas of the same version share."""
    return store.shared_secret("answers") + _version().encode()


def _version() -> str:
    try:
        return metadata.version("tunebook")
    except metadata.PackageNotFoundError:
        # It runs from a tree: whoever changes that starts all replicas anew.
        return "uninstalled"


def _names(listening: Listening, given: list[str]) -> tuple[str, ...]:
    """The host names that it may be addressed by."""
    from tunebook.service.api.settings import LOOPBACK_NAMES

    named = (*LOOPBACK_NAMES, *given)
    return named if listening.is_local else (*named, listening.host, socket.gethostname())


def _token_command(db: str | None) -> str:
    """What makes a token in the same database."""
    words = ["tunebook", "token", "create", "NAME"]
    if (named := database_to_name(db)) is not None:
        words += ["--db", named]
    return shlex.join(words)


def _workers(
    count: int,
    db: str | None,
    redis: str | None,
    models: str | None,
    boards: list[str],
    tracker: str | None,
) -> WorkerProcesses | None:
    if count == 0:
        return None
    from tunebook.service.api.processes.embedded_worker import EmbeddedWorkers

    return EmbeddedWorkers(count, db=db, redis=redis, models=models, boards=boards, tracker=tracker)
