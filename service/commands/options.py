"""Options that several commands share, declared once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from tunebook.cache import connect
from tunebook.cache.errors import UsageError
from tunebook.cache.remote.schedule_cache import ScheduleCache
from tunebook.cache.storage.database import default_path
from tunebook.cache.store import Store
from tunebook.service.mending import DATABASE_VARIABLE, REDIS_VARIABLE

SERVER_VARIABLE = "TUNEBOOK_SERVER"


class Layout(str, Enum):
    """How images lie in memory between convolutions."""

    NCHW = "NCHW"
    NHWC = "NHWC"


ModelPath = Annotated[
    Path, typer.Argument(metavar="MODEL", help="An ONNX model, or a .pt2 file of torch.export.")
]
TargetText = Annotated[
    str,
    typer.Option(
        "--target",
        help="What to compile for: 'host', a tag such as raspberry-pi/4b-aarch64, or a text such "
        "as 'llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4'.",
    ),
]
CompletableTarget = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="What to compile for: 'host', a tag such as raspberry-pi/4b-aarch64, or a text such "
        "as 'llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4'. What it leaves out of "
        "cores, triple and processor the class in --boards supplies, where it has defaults.",
    ),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape", metavar="NAME=1,3,224,224", help="Fixes an input's dimensions; repeatable."
    ),
]
LayoutChoice = Annotated[
    Layout | None,
    typer.Option(
        "--layout",
        case_sensitive=False,
        help="How images lie in memory between 2-D convolutions. Default: NCHW to tune, and else "
        "what the model was tuned with last.",
    ),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--db",
        envvar=DATABASE_VARIABLE,
        help="The database: a file, or an SQLAlchemy URL. Default: in your data folder.",
    ),
]
RedisUrl = Annotated[
    str | None,
    typer.Option(
        "--redis",
        metavar="URL",
        envvar=REDIS_VARIABLE,
        help="A Redis that carries news between workers and replicas: redis://HOST:PORT/NUMBER, "
        "rediss:// for TLS. A command line shows a password to everybody: give one by the "
        "environment. Default: none; all goes on from the database.",
    ),
]
Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        envvar=SERVER_VARIABLE,
        help="The coordinator to ask; several addresses, separated by commas, are of replicas with "
        "one database. Default: none, but the database.",
    ),
]
Boards = Annotated[
    str | None,
    typer.Option(
        "--boards",
        metavar="CLASS",
        help="The boards' class at the tracker, or emulated-aarch64. Default: this machine.",
    ),
]
ClassOfTarget = Annotated[
    str | None,
    typer.Option(
        "--boards",
        metavar="CLASS",
        help="The class of boards that supplies what --target leaves out.",
    ),
]
Tracker = Annotated[
    str | None, typer.Option("--tracker", metavar="HOST:PORT", help="The boards' RPC tracker.")
]
BoardTimeout = Annotated[
    str, typer.Option("--board-timeout", help="How long to wait for a free board: 60s, 5m.")
]
AcceptEmulated = Annotated[
    bool,
    typer.Option("--accept-emulated", help="Serve schedules that only an emulated board timed."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document for machines.")]


def open_store(url: str | None, *, read_only: bool = False) -> Store:
    """The store behind --db; what only reads makes no file where none is."""
    return Store.open(url, read_only=read_only)


@contextmanager
def open_store_if_any(url: str | None) -> Iterator[Store | None]:
    """The store behind --db to read from; None where nothing is named and this user has none."""
    if url is None and not default_path().exists():
        yield None
        return
    with open_store(url, read_only=True) as store:
        yield store


def chosen_server(url: str | None, server: str | None) -> str | None:
    """The coordinator to ask; None where the database is meant. Of --db and --server the one that
    was typed counts, whatever the environment says. Raises UsageError for both."""
    if url is None or server is None:
        return server
    database_typed = url != os.environ.get(DATABASE_VARIABLE)
    server_typed = server != os.environ.get(SERVER_VARIABLE)
    if database_typed == server_typed:
        raise UsageError("both a database and a coordinator are named; give --db or --server")
    return server if server_typed else None


def open_cache(url: str | None, server: str | None) -> ScheduleCache:
    """The coordinator, or else the database behind --db, to read from."""
    return open_store(url, read_only=True) if server is None else connect(server)
