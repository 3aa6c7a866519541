"""What a board server is told on its command line."""

from __future__ import annotations

import argparse
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

from tunebook.workers.boards.server.listening import EVERYWHERE, listening_address
from tunebook.workers.boards.server.rights import user_and_group


@dataclass(frozen=True)
class ServerOptions:
    """What a server is told: where the tracker is, what the board is called, where to listen, and
    as which user and group, by their numbers, to serve (None: as it was started)."""

    tracker: tuple[str, int]
    board_class: str
    name: str
    server_id: str
    host: str
    port: int
    advertise: str | None
    work_folder: Path | None
    parent_pid: int | None
    count_file: int | None
    run_as: tuple[int, int] | None


def server_options(arguments: list[str]) -> ServerOptions:
    """Reads the options; ends the process in words where they are wrong."""
    parser = argparse.ArgumentParser(prog="board_server", description="Serve a board over TVM RPC.")
    parser.add_argument("--tracker", required=True, metavar="HOST:PORT")
    parser.add_argument("--key", required=True, help="the board's class at the tracker")
    parser.add_argument("--name", default=socket.gethostname(), help="what records call the board")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to listen on, or the network interface that has it",
    )
    parser.add_argument("--port", type=int, default=0, help="the port to listen on (0: any)")
    parser.add_argument("--advertise", help="the address that clients reach this board under")
    parser.add_argument("--work-folder", type=Path, help="where the sessions' files go meanwhile")
    parser.add_argument("--run-as", metavar="USER", help="the user to serve as, started by root")
    parser.add_argument("--server-id", default=secrets.token_hex(8), help=argparse.SUPPRESS)
    parser.add_argument("--parent-pid", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--count-file", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    tracker_host, _, tracker_port = given.tracker.rpartition(":")
    if not tracker_host or not tracker_port.isdigit():
        parser.error(f"--tracker {given.tracker}: expected HOST:PORT, as in 192.0.2.1:9190")
    if not given.key or any(character.isspace() for character in given.key):
        parser.error(f"--key {given.key!r}: a board class has no spaces")
    try:
        host = listening_address(given.host)
        run_as = None if given.run_as is None else user_and_group(given.run_as)
    except ValueError as error:
        parser.error(str(error))
    return ServerOptions(
        tracker=(tracker_host.strip("[]"), int(tracker_port)),
        board_class=given.key,
        name=given.name,
        server_id=given.server_id,
        host=host,
        port=given.port,
        # None: the tracker takes the address that the server's connection comes from.
        advertise=given.advertise or (None if host in EVERYWHERE else host),
        work_folder=given.work_folder,
        parent_pid=given.parent_pid,
        count_file=given.count_file,
        run_as=run_as,
    )
