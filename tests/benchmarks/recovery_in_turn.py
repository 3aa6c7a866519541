"""Untuned, recovered and searched schedules of a task measured in turn on this machine."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

from tunebook.cache.records import Workload
from tunebook.tuner.splitting.program import Program, describe
from tunebook.tuner.trials.build_pool import BuildPool
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.trials import BoardAddress, BuildRequest, BuiltLibrary
from tunebook.workers.boards.quiet_machine import QuietMachine

_ROUNDS = 21
# Order statistics of so many values: the median of what they were drawn from lies between the
# 6th and the 16th with a probability of 97 %.
_LOW, _HIGH = 5, 15


@dataclass(frozen=True)
class Traces:
    """A task's program, and by name the traces to compare; None is the unscheduled program."""

    workload: Workload
    target: str
    traces: Mapping[str, str | None]


@dataclass(frozen=True)
class Ratio:
    """A median over rounds, and the interval that holds the true one."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Ratio:
        ordered = sorted(values)
        return cls(statistics.median(ordered), ordered[_LOW], ordered[_HIGH])

    def described(self) -> dict[str, float]:
        return {
            "median": round(self.median, 4),
            "low": round(self.low, 4),
            "high": round(self.high, 4),
        }


class InTurn:
    """Seconds by task, round and name of trace."""

    def __init__(self, rounds: Sequence[Sequence[Mapping[str, float]]]) -> None:
        self._rounds = rounds

    def share(self, task: int, name: str, of: str) -> Ratio:
        """The speed of one trace as a share of another's, in the same round."""
        return Ratio.of([one[task][of] / one[task][name] for one in self._rounds])

    def mean_share(self, name: str, of: str) -> Ratio:
        """The same over all tasks, as their geometric mean in each round."""
        return Ratio.of([geometric_mean(t[of] / t[name] for t in one) for one in self._rounds])


def in_turn(tasks: Sequence[Traces], board: BoardAddress, num_cores: int, folder: Path) -> InTurn:
    """Builds everything first, then measures in rounds: each trace of each task, one after the
    other, so that what disturbs the machine for a while disturbs all of them."""
    with (
        BuildPool(2, 120, folder) as builds,
        Measurer(board, num_cores=num_cores) as measurer,
        QuietMachine(measures_here=True) as machine,
    ):
        with machine.working():
            built = [_build(builds, task) for task in tasks]
        builds.close()
        with machine.measuring():
            rounds = [
                [_measure(measurer, program, libraries) for program, libraries in built]
                for _ in range(_ROUNDS)
            ]
    return InTurn(rounds)


def _build(builds: BuildPool, task: Traces) -> tuple[Program, dict[str, BuiltLibrary]]:
    program = describe(task.workload)
    futures = {
        name: builds.submit(BuildRequest(program.tir, task.target, trace))
        for name, trace in task.traces.items()
    }
    libraries = {}
    for name, future in futures.items():
        built = future.result()
        assert isinstance(built, BuiltLibrary), built
        libraries[name] = built
    return program, libraries


def _measure(
    measurer: Measurer, program: Program, libraries: Mapping[str, BuiltLibrary]
) -> dict[str, float]:
    found = {}
    for name, library in libraries.items():
        measured = measurer.measure(library, program)
        assert measured.seconds is not None, measured.error_text
        found[name] = measured.seconds
    return found
