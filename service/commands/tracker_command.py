"""`tunebook tracker`: where boards register, and workers ask for them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from tunebook.cache.errors import ExitCode, UsageError
from tunebook.service.output import print_text

if TYPE_CHECKING:
    from tunebook.workers.boards.tracker import TrackerAddress


def tracker(
    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="ADDRESS|INTERFACE",
            help="The address to listen on, or the network interface that has it.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")
    ] = 9190,
) -> int:
    """Serve as the tracker of boards until stopped."""
    # A tracker compiles nothing, and without its compiler TVM starts in half the time.
    os.environ["TVM_USE_RUNTIME_LIB"] = "1"

    # Only here: `tunebook --help` should not wait for TVM.
    from tunebook.workers.boards.server.listening import listening_address, warn_where_everywhere
    from tunebook.workers.boards.tracker import serve_as_tracker

    try:
        address = listening_address(host)
    except ValueError as error:
        raise UsageError(f"--host: {error}") from None
    warn_where_everywhere(address)
    try:
        serve_as_tracker(address, port, _tell)
    except KeyboardInterrupt:
        return ExitCode.OK
    return ExitCode.OK


def _tell(address: TrackerAddress) -> None:
    print_text(f"The tracker listens on {address}")
