"""A board's agent in this process, with a real board server and a real tracker."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from tunebook.workers.agent.board_agent import AgentSettings, BoardAgent
from tunebook.workers.agent.board_readings import BoardReadings, Processor
from tunebook.workers.agent.coordinator_reports import CoordinatorReports
from tunebook.workers.agent.governor import GovernorKeeper
from tunebook.workers.agent.machine import Machine
from tunebook.workers.agent.throttling import Throttling
from tunebook.workers.boards.board_supervisor import ServerCommand
from tunebook.workers.boards.host_server import host_server
from tunebook.workers.boards.tracker import TrackerAddress

sys.path.insert(0, str(Path(__file__).parent))

from kept_boards import CLASS, NAME, QUICK, Coordinator, KeptBoard

KeepBoard = Callable[..., KeptBoard]


@pytest.fixture
def keep_board() -> Iterator[KeepBoard]:
    """Starts an agent; keywords change its settings."""
    with ExitStack() as ends:

        def keep(
            tracker: TrackerAddress,
            reports: CoordinatorReports | None = None,
            server: ServerCommand | None = None,
            **changes: object,
        ) -> KeptBoard:
            machine = Machine()
            settings = AgentSettings(CLASS, NAME, tracker, limits=QUICK)
            agent = BoardAgent(
                replace(settings, **changes),  # type: ignore[arg-type]
                server or host_server(1),
                BoardReadings(Processor.of_this_machine(machine), machine, Throttling()),
                GovernorKeeper(None, machine),
                reports,
            )
            stop = threading.Event()
            thread = threading.Thread(target=agent.run, args=(stop,))
            thread.start()

            def end() -> None:
                stop.set()
                thread.join()

            ends.callback(end)
            return KeptBoard(tracker, end)

        yield keep


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    with closing(Coordinator(tmp_path_factory.mktemp("coordinator"))) as running:
        yield running
