"""Each part of a fleet dies while it works, one at a time, and nothing is lost by it.

For every fault: the job ends as it should; each committed trial is stored once and as it was, and
at most what was in flight is measured again; the budget is exact; no board is left busy; nothing
unverified is served; and no look-up fails that the client's own retries do not mend. The figures
are printed as a table at the end of the session.

All of it runs on one machine, where a process that was killed is seen to be gone at once. Elsewhere
its lease has to die first, as that of the worker which is paused.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fault_checks import TRIALS, WatchedJob
from fleet_database import HeldRound
from fleet_parts import Part, end_tree
from running_fleet import REPLICAS, WORKERS, Fleet

from tunebook.cache.boards.registrations import RegisteredBoard

pytestmark = [pytest.mark.slow, pytest.mark.emulated, pytest.mark.postgresql]

Properties = Callable[..., None]
# As a service manager waits before it starts again what ended.
_RESTART_SECONDS = 1.0
_PAUSED_SECONDS = 60.0


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong. `catch` gives what it happens to once the moment is there,
    `strike` makes it, and `mend` is what a service manager does then, where somebody has to."""

    name: str
    catch: Callable[[Fleet, int], Any]
    strike: Callable[[Fleet, Any], None]
    mend: Callable[[Fleet, Any], None] = lambda fleet, struck: None


def holder(is_wanted: Callable[[HeldRound], bool]) -> Callable[[Fleet, int], Part | None]:
    """Catches the worker that holds a round which is as far as wanted."""

    def catch(fleet: Fleet, job: int) -> Part | None:
        for held in fleet.database.held_rounds(job):
            if is_wanted(held):
                return fleet.parts[held.worker]
        return None

    return catch


def while_measured(catch: Callable[[Fleet], Any]) -> Callable[[Fleet, int], Any]:
    """Catches something while trials of the job are measured."""

    def catch_then(fleet: Fleet, job: int) -> Any:
        held = fleet.database.held_rounds(job)
        return catch(fleet) if any(one.is_measured for one in held) else None

    return catch_then


def serving_board(fleet: Fleet) -> RegisteredBoard | None:
    return next(iter(fleet.serving_boards()), None)


def agent_of_serving_board(fleet: Fleet) -> Part | None:
    board = serving_board(fleet)
    return None if board is None or board.name is None else fleet.parts[board.name]


def part(name: str) -> Callable[[Fleet], Part]:
    return lambda fleet: fleet.parts[name]


def kill(fleet: Fleet, struck: Part) -> None:
    struck.kill()


def start(fleet: Fleet, struck: Part) -> None:
    time.sleep(_RESTART_SECONDS)
    struck.start()


def kill_server(fleet: Fleet, struck: RegisteredBoard) -> None:
    assert struck.pid is not None
    end_tree(struck.pid)


def start_postgresql(fleet: Fleet, struck: Any) -> None:
    time.sleep(_RESTART_SECONDS)
    fleet.postgresql.start()


def start_redis(fleet: Fleet, struck: Any) -> None:
    time.sleep(_RESTART_SECONDS)
    fleet.redis.start()


FAULTS = [
    Fault("a worker during search", holder(lambda held: held.is_searched), kill, start),
    Fault("a worker during build", holder(lambda held: held.is_built), kill, start),
    Fault("a worker during a run", holder(lambda held: held.is_measured), kill, start),
    Fault("the board server", while_measured(serving_board), kill_server),
    Fault("the board agent", while_measured(agent_of_serving_board), kill, start),
    Fault("the tracker", while_measured(part("tracker")), kill, start),
    *(Fault(name, while_measured(part(name)), kill, start) for name in REPLICAS),
    Fault(
        "Redis",
        while_measured(lambda fleet: fleet.redis),
        lambda fleet, struck: fleet.redis.kill(),
        start_redis,
    ),
    Fault(
        "PostgreSQL",
        while_measured(lambda fleet: fleet.postgresql),
        lambda fleet, struck: fleet.kill_postgresql(),
        start_postgresql,
    ),
]


def catch(
    what: Callable[[Fleet, int], Any], fleet: Fleet, model: Path, name: str
) -> tuple[WatchedJob, Any]:
    """A job, and what is caught while it is worked on. The moment may be over before we look: then
    it is waited for in another job."""
    job = WatchedJob(fleet, model, name)

    def look() -> tuple[WatchedJob, Any] | None:
        nonlocal job
        is_over = job.is_measured
        caught = what(fleet, job.id)
        if caught is None and is_over:
            job = WatchedJob(fleet, model, name)
        return None if caught is None else (job, caught)

    return fleet.until(look, f"the moment for: {name}")


def test_a_fleet_without_faults_tunes_a_model(
    fleet: Fleet, small_model: Path, record_property: Properties
) -> None:
    """Its schedules are what all other tests look up."""
    job = WatchedJob(fleet, small_model, "none")
    job.struck()
    job.recovered()
    fleet.ended(job.id)
    fleet.ask_for([task.key for task in fleet.store.task_states(job.id)])
    record_property(*job.check().as_property())


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_nothing_is_lost_when_it_is_killed(
    fault: Fault, fleet: Fleet, small_model: Path, record_property: Properties
) -> None:
    job, struck = catch(fault.catch, fleet, small_model, fault.name)
    job.struck(struck.name if isinstance(struck, Part) and struck.name in WORKERS else None)
    fault.strike(fleet, struck)
    fault.mend(fleet, struck)
    job.recovered()
    record_property(*job.check().as_property())


def test_a_worker_that_stood_still_for_a_minute_has_lost_its_rounds_and_breaks_nothing(
    fleet: Fleet, small_model: Path, record_property: Properties
) -> None:
    """The other worker does this job in the meantime, and another one: that is what the minute is
    used for."""
    measures = holder(lambda held: held.is_measured)
    job, worker = catch(measures, fleet, small_model, "a worker paused for a minute")
    job.struck(worker.name)
    paused = time.monotonic()
    worker.pause()
    job.recovered()
    assert fleet.ended(job.id)["state"] == "done"
    assert fleet.ended(fleet.submit(small_model, TRIALS, "meanwhile"))["state"] == "done"
    time.sleep(max(0.0, paused + _PAUSED_SECONDS - time.monotonic()))
    worker.resume()
    fleet.until(lambda: is_idle(fleet, worker.name), "it has come back, and holds nothing")
    record_property(*job.check().as_property())


def is_idle(fleet: Fleet, name: str) -> bool:
    there = {one.name: one.activity for one in fleet.store.fleet.workers()}
    return there.get(name) == "idle"
