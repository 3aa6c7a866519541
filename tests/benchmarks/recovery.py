"""How much of a full search's gain `tunebook migrate` recovers from records of near keys.

For each scenario a store holds the records of old keys only, as full searches left them. The new
keys are migrated in it with a few trials each, and compared with full searches of their own.

    python tests/benchmarks/recovery.py --work DIR [SCENARIO...]     by instructions executed
    python tests/benchmarks/recovery.py --work DIR --host [...]      by time, on this machine

The first needs no quiet machine: the emulated board counts. The second does, and measures untuned,
recovered and searched schedules in turn. Searches are kept in DIR, and only those that are missing
are made. The last line is RESULT and a JSON object: for each scenario the `share` of the searched
speed that was recovered (geometric mean over the tasks), the trials that a task got at most, and
the same for every task; by time, each share with the interval that holds its true value.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from recovery_in_turn import InTurn, Traces, in_turn
from recovery_models import PARTS, PARTS_ALTERED, retrained_tasks, single_tasks, together

from tunebook.cache.records import Model, Record
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner.llvm_targets import resolve_target
from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.boards.boards import BoardPlan
from tunebook.workers.boards.emulated_board import emulated_board
from tunebook.workers.boards.local_board import local_board
from tunebook.workers.commands.migration import migrate
from tunebook.workers.commands.tuning import BudgetRequest, TuningPlan, tune
from tunebook.workers.rounds.workbench import WorkerSettings

sys.path.insert(0, str(Path(__file__).parents[1] / "data" / "old-compiler"))

from stored_searches import StoredSearch, old_compiler_searches, put_search

SEARCH_TRIALS = 64
# A search by one thread draws the same random numbers each time, so that what is compared here is
# not luck: two searches of 64 trials differ by tens of percent.
ONE_THREAD = WorkerSettings(processes=1, board_timeout=60)
EMULATED = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=1"
ATTRIBUTE_LESS = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -mattr=-dotprod -num-cores=1"


@dataclass(frozen=True)
class Change:
    """The searches to begin with, and the models of one task each to recover from them."""

    old: Sequence[StoredSearch]
    new: Sequence[Model]


@dataclass(frozen=True)
class Searched:
    """What a full search of a task found: the served record, and the unscheduled program's time."""

    record: Record
    untuned: float

    @property
    def seconds(self) -> float:
        return self.record.measurement.seconds or math.inf


@dataclass(frozen=True)
class Recovered:
    """One task, by what a search found and what a migration found in so many trials; `record` is
    None where it found nothing that is served."""

    model: Model
    searched: Searched
    record: Record | None
    trials: int
    reason: str

    @property
    def seconds(self) -> float:
        """Where nothing was recovered, a build is left with the unscheduled program."""
        if self.record is None:
            return self.searched.untuned
        return self.record.measurement.seconds or math.inf

    @property
    def share(self) -> float:
        return self.searched.seconds / self.seconds

    @property
    def traces(self) -> Traces:
        traces = {
            "untuned": None,
            "recovered": None if self.record is None else self.record.candidate.trace,
            "searched": self.searched.record.candidate.trace,
        }
        return Traces(self.model.tasks[0].workload, self.model.target, traces)

    def described(self) -> dict[str, Any]:
        key = self.model.keys[0]
        return {
            "op": key.op,
            "buffers": key.buffers,
            "reason": self.reason,
            "trials": self.trials,
            "untuned": self.searched.untuned,
            "searched": self.searched.seconds,
            "recovered": self.seconds,
            "share": round(self.share, 4),
            "origin": "" if self.record is None else self.record.candidate.origin,
        }


class Bench:
    """Searches and migrates on one board for one target, and keeps the searches."""

    def __init__(self, work: Path, board: BoardAddress, target: Target) -> None:
        self.work = work
        self.target = target
        self._board = board
        self._kind = "emulated" if board.emulated else "host"

    def kept(self, models: Sequence[Model]) -> list[StoredSearch]:
        """What full searches of the models measured."""
        self.search(models)
        found = []
        for model in models:
            with self._searched(model) as store:
                found.append(StoredSearch(model, tuple(store.records(model.keys[0]))))
        return found

    def search(self, models: Sequence[Model]) -> list[Searched]:
        """Full searches, of which only what is missing is made."""
        return [self._search(model) for model in models]

    def recover(self, name: str, trials_per_task: int, change: Change) -> list[Recovered]:
        """Migrates the new models in a store that holds the old searches alone."""
        path = self.work / f"recovered-{self._kind}-{name}.db"
        for leftover in self.work.glob(f"{path.name}*"):
            leftover.unlink()
        with Store.open(str(path)) as store:
            for search in change.old:
                put_search(store, search)
            report = migrate(
                self._plan(together(change.new)),
                store,
                lambda progress: None,
                trials_per_task=trials_per_task,
            )
        tasks = {task.miss.key: task for task in report.tasks}
        searches = self.search(change.new)
        return [
            Recovered(model, searched, task.served, task.trials, task.miss.reason.value)
            for model, searched in zip(change.new, searches, strict=True)
            if (task := tasks[model.keys[0]])
        ]

    def in_turn(self, recovered: Sequence[Recovered]) -> InTurn:
        """The schedules of all tasks, measured in turn on this machine."""
        with tempfile.TemporaryDirectory() as name:
            return in_turn(
                [one.traces for one in recovered],
                self._board,
                self.target.num_cores,
                Path(name),
            )

    def _searched(self, model: Model) -> Store:
        """The database of one search: it must find nothing near to start from."""
        (key,) = model.keys
        name = hashlib.sha256(str(key).encode()).hexdigest()[:16]
        return Store.open(str(self.work / f"search-{self._kind}-{name}.db"))

    def _search(self, model: Model) -> Searched:
        with self._searched(model) as store:
            report = tune(self._plan(model), store, lambda progress: None)
            (task,) = report.tasks
            served = store.lookup(model.keys, accept_emulated=self._board.emulated).hits[task.key]
            record = next(one for one in store.records(task.key) if one.id == served.record_id)
        if report.run.trials:
            _say(f"searched {task.key}: {report.run.trials} trials, {report.run.seconds:.0f} s")
        assert task.untuned_seconds is not None, f"{task.key} did not run unscheduled"
        return Searched(record, task.untuned_seconds)

    def _plan(self, model: Model) -> TuningPlan:
        board = self._board
        return TuningPlan(
            model,
            resolve_target(model.target),
            BoardPlan(board.board_class, board.emulated, lambda: nullcontext(board)),
            BudgetRequest(trials=SEARCH_TRIALS * len(model.tasks)),
            ONE_THREAD,
        )


def compiler(bench: Bench) -> list[Change]:
    """TVM 0.26 to the version that is installed here."""
    return [Change(old_compiler_searches(), single_tasks(PARTS, bench.target, bench.work))]


def target(bench: Bench) -> list[Change]:
    """One attribute less, and one more."""
    parts = (PARTS[0], PARTS[2])
    more = single_tasks(parts, bench.target, bench.work)
    less = single_tasks(parts, resolve_target(ATTRIBUTE_LESS), bench.work)
    return [Change(bench.kept(more), less), Change(bench.kept(less), more)]


def constants(bench: Bench) -> list[Change]:
    """Every weight of magika times 1.01."""
    before, after = retrained_tasks(bench.target, bench.work)
    return [Change(bench.kept(before), after)]


def shape(bench: Bench) -> list[Change]:
    """A sequence of 127 for 128, a batch of 2 for 1, an image of 256 for 224."""
    before = single_tasks(PARTS, bench.target, bench.work)
    return [Change(bench.kept(before), single_tasks(PARTS_ALTERED, bench.target, bench.work))]


@dataclass(frozen=True)
class Scenario:
    """What changes, the trials that each task gets, and the share that is wanted."""

    changes: Callable[[Bench], list[Change]]
    trials_per_task: int
    goal: float


SCENARIOS = {
    "compiler": Scenario(compiler, 4, 0.99),
    "target": Scenario(target, 4, 0.99),
    "constants": Scenario(constants, 1, 0.99),
    "shape": Scenario(shape, 8, 0.9),
}
# The others are of AArch64 targets.
ON_THE_HOST = ("constants", "shape")


def figures(name: str, bench: Bench, *, host: bool) -> dict[str, Any]:
    """One scenario's figures."""
    scenario = SCENARIOS[name]
    recovered = [
        one
        for number, change in enumerate(scenario.changes(bench))
        for one in bench.recover(f"{name}-{number}", scenario.trials_per_task, change)
    ]
    each = [one.described() for one in recovered]
    found: dict[str, Any] = {
        "share": round(geometric_mean(one.share for one in recovered), 4),
        "least": round(min(one.share for one in recovered), 4),
        "untuned": round(
            geometric_mean(one.searched.seconds / one.searched.untuned for one in recovered), 4
        ),
        "goal": scenario.goal,
        "trials_per_task": scenario.trials_per_task,
        "trials": sum(one.trials for one in recovered),
    }
    if host:
        turns = bench.in_turn(recovered)
        found["share"] = turns.mean_share("recovered", "searched").described()
        found["untuned"] = turns.mean_share("untuned", "searched").described()
        for task, one in enumerate(each):
            one["share"] = turns.share(task, "recovered", "searched").described()
            one["untuned_share"] = turns.share(task, "untuned", "searched").described()
    return {**found, "tasks": each}


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--work", type=Path, required=True, help="where searches are kept")
    parser.add_argument("--host", action="store_true", help="by time, on this machine")
    given = parser.parse_args()
    names = given.scenarios or (ON_THE_HOST if given.host else list(SCENARIOS))
    unknown = set(names) - set(ON_THE_HOST if given.host else SCENARIOS)
    if unknown:
        parser.error(f"no such scenario here: {', '.join(sorted(unknown))}")
    given.work.mkdir(parents=True, exist_ok=True)
    chosen = resolve_target("host" if given.host else EMULATED)
    board = local_board(chosen.num_cores) if given.host else emulated_board()
    result = {}
    with board as address:
        bench = Bench(given.work, address, chosen)
        for name in names:
            result[name] = found = figures(name, bench, host=given.host)
            for task in found["tasks"]:
                _say(f"{name} {task['share']} {task['op']} {task['buffers']} ({task['origin']})")
            _say(f"{name}: share {found['share']}, goal {found['goal']}")
    print("RESULT " + json.dumps(result))


if __name__ == "__main__":
    main()
