"""`tunebook board`: keeps the board that this machine is at a tracker, and reports it."""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING, Annotated

import typer

from tunebook.cache.board_names import is_board_name, is_class_name, own_class
from tunebook.cache.errors import ExitCode, UsageError
from tunebook.cache.remote.client import Client
from tunebook.cache.remote.retries import Retries
from tunebook.cache.remote.token_file import (
    TOKEN_FILE_VARIABLE,
    TOKEN_VARIABLE,
    given_token,
    is_loopback,
)
from tunebook.service.commands.options import SERVER_VARIABLE
from tunebook.service.commands.stopping import stop_when_told
from tunebook.service.logs import log_as_json

if TYPE_CHECKING:
    from tunebook.workers.agent.board_agent import AgentSettings, BoardAgent
    from tunebook.workers.agent.coordinator_reports import CoordinatorReports

_log = logging.getLogger(__name__)


def board(
    board_class: Annotated[
        str,
        typer.Option(
            "--class",
            metavar="CLASS",
            help="Its class, the key at the tracker: boards of one class must be interchangeable "
            "in a measurement.",
        ),
    ],
    tracker: Annotated[
        str, typer.Option("--tracker", metavar="HOST:PORT", help="The tracker to register at.")
    ],
    coordinator: Annotated[
        str | None,
        typer.Option(
            "--coordinator",
            metavar="URL",
            envvar=SERVER_VARIABLE,
            help="The coordinator to report to, with a token of role board in "
            f"{TOKEN_VARIABLE} or the file that {TOKEN_FILE_VARIABLE} names. Default: none.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="What records call it. Default: the host's name.")
    ] = None,
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            metavar="ADDRESS|INTERFACE",
            help="The address to listen on, or the network interface that has it, such as wg0.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")
    ] = 0,
    advertise: Annotated[
        str | None,
        typer.Option(
            "--advertise",
            metavar="ADDRESS",
            help="The address that workers reach it under, where that is another.",
        ),
    ] = None,
    governor: Annotated[
        str | None,
        typer.Option(
            "--governor",
            help="The frequency governor to keep, such as performance, by the helper "
            "tunebook-set-governor. Default: whichever holds.",
        ),
    ] = None,
    run_as: Annotated[
        str | None,
        typer.Option(
            "--run-as",
            metavar="USER",
            help="The user that kernels run as, where root starts this. Default: whoever does.",
        ),
    ] = None,
    emulated: Annotated[
        bool, typer.Option("--emulated", help="Serve an emulated AArch64 board instead.")
    ] = False,
) -> int:
    """Keep a board at its tracker until stopped: start its server again, and report its state."""
    name = name or socket.gethostname()
    _check_names(board_class, name)
    # What runs here compiles nothing, and without its compiler TVM starts in half the time.
    os.environ["TVM_USE_RUNTIME_LIB"] = "1"

    # Only here: `tunebook --help` should not wait for TVM.
    from tunebook.workers.agent.board_agent import AgentSettings
    from tunebook.workers.boards.guest_server import EMULATED_CLASS, GUEST_LIMITS
    from tunebook.workers.boards.server.listening import warn_where_everywhere
    from tunebook.workers.boards.tracker import parse_tracker

    _check_kind(board_class, emulated, EMULATED_CLASS)
    _check_listening(listen)
    _check_user(run_as)
    settings = AgentSettings(
        board_class=board_class,
        name=name,
        tracker=parse_tracker(tracker),
        host=listen,
        port=port,
        advertise=advertise,
        run_as=run_as,
        limits=GUEST_LIMITS if emulated else None,
    )
    with stop_when_told() as stop:
        log_as_json()
        warn_where_everywhere(listen)
        _warn_where_unreachable(settings)
        if run_as is None and os.geteuid() == 0:
            _log.warning("what this board is sent runs as root; give --run-as USER")
        agent = _make_agent(settings, _reports(coordinator, board_class, name), governor, emulated)
        agent.run(stop)
    return ExitCode.OK


def _check_names(board_class: str, name: str) -> None:
    if not is_class_name(board_class) or own_class(board_class) != board_class:
        raise UsageError(
            f"--class {board_class!r}: a class is made of letters, digits, '.', '_' and '-', such "
            "as rpi4b, and does not end in .quarantined"
        )
    if not is_board_name(name):
        raise UsageError(f"--name {name!r}: a board is called by one printable line without '/'")


def _check_kind(board_class: str, emulated: bool, emulated_class: str) -> None:
    """Raises UsageError where an emulated board would count as a real one, or the reverse."""
    from tunebook.cache.queue.submissions import is_emulated

    if emulated and board_class != emulated_class:
        raise UsageError(f"--emulated serves boards of one class; give --class {emulated_class}")
    if not emulated and is_emulated(board_class):
        raise UsageError(
            f"--class {board_class}: by its name a class of emulated boards; give --emulated, or "
            "another name"
        )


def _check_listening(listen: str) -> None:
    """Raises UsageError for all addresses where they are not asked for in so many words. What else
    is wrong may not stay so: an interface comes up later, and the server is started again then."""
    from tunebook.workers.boards.server.listening import MeansEverywhereError, listening_address

    try:
        listening_address(listen)
    except MeansEverywhereError as error:
        raise UsageError(f"--listen: {error}") from None
    except ValueError:
        return


def _warn_where_unreachable(settings: AgentSettings) -> None:
    from tunebook.workers.boards.server.listening import listening_address

    try:
        address = settings.advertise or listening_address(settings.host)
    except ValueError:
        return
    if is_loopback(address) and not is_loopback(settings.tracker.host):
        _log.warning(
            "workers elsewhere cannot reach this board: it is handed out at %s, an address of this "
            "machine alone; name the network's with --listen, or a tunnel's end with --advertise",
            address,
        )


def _check_user(run_as: str | None) -> None:
    from tunebook.workers.boards.server.rights import user_and_group

    if run_as is None:
        return
    try:
        user_and_group(run_as)
    except ValueError as error:
        raise UsageError(f"--run-as: {error}") from None
    if os.geteuid() != 0:
        raise UsageError("--run-as takes a start by root; start this as that user instead")


def _reports(coordinator: str | None, board_class: str, name: str) -> CoordinatorReports | None:
    # Kernels have no use for it; the server's environment is made of this one.
    token = given_token(os.environ)
    for variable in (TOKEN_VARIABLE, TOKEN_FILE_VARIABLE):
        os.environ.pop(variable, None)
    if coordinator is None:
        return None
    from tunebook.workers.agent.coordinator_reports import CoordinatorReports

    retries = Retries(patience=0.0)
    return CoordinatorReports(
        board_class, name, lambda: Client(coordinator, token, retries=retries)
    )


def _make_agent(
    settings: AgentSettings,
    reports: CoordinatorReports | None,
    governor: str | None,
    emulated: bool,
) -> BoardAgent:
    from tunebook.workers.agent.board_agent import BoardAgent
    from tunebook.workers.agent.board_readings import BoardReadings, Processor
    from tunebook.workers.agent.emulated_processor import EMULATED_CPU, emulated_processor
    from tunebook.workers.agent.governor import GovernorKeeper
    from tunebook.workers.agent.machine import Machine
    from tunebook.workers.agent.throttling import Throttling
    from tunebook.workers.boards.emulated_sysroot import emulated_sysroot
    from tunebook.workers.boards.guest_server import guest_server
    from tunebook.workers.boards.host_server import host_server

    machine = Machine()
    if emulated:
        processor = emulated_processor()
        server = guest_server(emulated_sysroot(), EMULATED_CPU)
    else:
        processor = Processor.of_this_machine(machine)
        server = host_server(processor.cores)
    return BoardAgent(
        settings,
        server,
        BoardReadings(processor, machine, Throttling()),
        GovernorKeeper(governor, machine),
        reports,
    )
