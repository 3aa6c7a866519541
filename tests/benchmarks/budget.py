"""The share of an even split's trials that the allocation needs, on recorded histories.

    python tests/benchmarks/budget.py [--histories FOLDER]

Replays the histories of three models that record_histories.py made by really tuning them: the n-th
trial of a task is the recorded n-th, whoever asks for it when; trials beyond a recording cost one
each and bring nothing. An even split of N trials over all tasks of all models reaches some latency
of each model. The allocation has those N trials as its budget too, and runs the rounds that it
would run, of 16 trials at most. Counted are all trials of its rounds until it has reached the
latency of the even split: the mean over the models, each relative to what the even split reached.

Figure `share_of_trials`: the worst of several N, all three models under one budget. Beside it
stand the same for each model alone, and for each of the three to be as fast under one budget.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.work import TaskState
from tunebook.tuner.search.allocation import RoundSizes, present_latency
from tunebook.tuner.search.rehearsal import Rehearsal

HISTORIES = Path(__file__).parents[1] / "data" / "trial-histories"
# At most half of what the tasks with most of the latency were recorded for: beyond, the recordings
# end before the allocation would stop.
TRIALS_PER_TASK = (16, 24, 32, 48)
_SIZES = RoundSizes()


@dataclass(frozen=True)
class TaskHistory:
    """A task's recorded trials in order: seconds, None for a failure. `exhausted`: the search found
    no more, so that nobody would ask for further ones."""

    task: TaskState
    trials: tuple[float | None, ...]
    seconds_per_trial: float
    exhausted: bool

    def after(self, trials: int) -> TaskState:
        """The task once so many trials were made, without a history of rounds."""
        reached = [seconds for seconds in self.trials[:trials] if seconds is not None]
        return replace(
            self.task,
            trials=trials,
            best_seconds=min(reached, default=None),
            seconds_per_trial=self.seconds_per_trial if trials else None,
            exhausted=self.exhausted and trials >= len(self.trials),
        )


@dataclass(frozen=True)
class ModelHistory:
    """A model's recorded tasks."""

    name: str
    tasks: tuple[TaskHistory, ...]

    @property
    def untried(self) -> tuple[TaskState, ...]:
        return tuple(task.after(0) for task in self.tasks)

    def even_latency(self, trials_per_task: int) -> float:
        """Seconds of the model once each task had so many trials."""
        return present_latency([task.after(trials_per_task) for task in self.tasks])


@dataclass(frozen=True)
class Comparison:
    """What an even split spends, and the allocation until it is as fast; seconds are those that
    the trials took when they were recorded. None: it never gets there on as many trials."""

    even_trials: int
    even_seconds: float
    trials: int | None
    seconds: float | None

    @property
    def share_of_trials(self) -> float:
        return math.inf if self.trials is None else self.trials / self.even_trials

    @property
    def share_of_seconds(self) -> float:
        return math.inf if self.seconds is None else self.seconds / self.even_seconds


def read_histories(folder: Path) -> list[ModelHistory]:
    """All recordings of a folder."""
    return [_read(path) for path in sorted(folder.glob("*.json"))]


def replay(models: Sequence[ModelHistory], trials: int, sizes: RoundSizes) -> Rehearsal:
    """The allocation of so many trials over all tasks of the models, none of them run yet."""

    def outcome(job: int, task: TaskState, count: int) -> TaskState:
        history = models[job].tasks[task.id]
        # Where the search found no more, a round gets what is left.
        if history.exhausted:
            count = min(count, len(history.trials) - task.trials)
        after = history.after(task.trials + count)
        reached = math.inf if after.best_seconds is None else after.best_seconds
        return replace(
            after,
            history=(*task.history, reached),
            history_trials=(*task.history_trials, after.trials),
        )

    return Rehearsal([model.untried for model in models], trials, sizes, outcome)


def compare(
    models: Sequence[ModelHistory], trials_per_task: int, *, each: bool = False
) -> Comparison:
    """Replays the models under one budget against an even split of it, until the models are as fast
    on average, or where `each` is asked for every one of them."""
    wanted = [model.even_latency(trials_per_task) for model in models]
    histories = [task for model in models for task in model.tasks]
    even = [min(trials_per_task, len(one.trials)) for one in histories]
    even_seconds = sum(n * one.seconds_per_trial for n, one in zip(even, histories, strict=True))
    rehearsal = replay(models, sum(even), _SIZES)
    trials, seconds = 0, 0.0
    while (max if each else fmean)(_relative(rehearsal, wanted)) > 1:
        played = rehearsal.step()
        if played is None:
            return Comparison(sum(even), even_seconds, None, None)
        trials += played.trials
        seconds += played.trials * models[played.job].tasks[played.task_id].seconds_per_trial
    return Comparison(sum(even), even_seconds, trials, seconds)


def _relative(rehearsal: Rehearsal, wanted: Sequence[float]) -> list[float]:
    return [present_latency(job) / one for job, one in zip(rehearsal.jobs, wanted, strict=True)]


def _read(path: Path) -> ModelHistory:
    content = json.loads(path.read_text(encoding="utf-8"))
    tasks = []
    for number, one in enumerate(content["tasks"]):
        target, compiler = content["target"], content["compiler"]
        state = TaskState(
            id=number,
            key=ScheduleKey(one["op"], one["buffers"], target, compiler, one["hash"]),
            weight=one["weight"],
            flops=0.0,
            untuned_seconds=_seconds(one["untuned_us"]),
            best_seconds=None,
            served_seconds=None,
            trials=0,
            history=(),
            exhausted=False,
            failures={},
        )
        trials = tuple(_seconds(trial) for trial in one["trial_us"])
        tasks.append(TaskHistory(state, trials, one["seconds_per_trial"], one["exhausted"]))
    return ModelHistory(content["model"], tuple(tasks))


def _seconds(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds * 1e-6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--histories", type=Path, default=HISTORIES)
    models = read_histories(parser.parse_args().histories)
    figures: dict[str, dict[str, float | None]] = {}
    for trials_per_task in TRIALS_PER_TASK:
        found = {"together": compare(models, trials_per_task)}
        found |= {model.name: compare([model], trials_per_task) for model in models}
        found["each of them"] = compare(models, trials_per_task, each=True)
        for name, one in found.items():
            print(
                f"{trials_per_task:3} a task  {name:13} even {one.even_trials:5} trials, "
                f"allocation {one.trials}: {one.share_of_trials:.3f} of the trials, "
                f"{one.share_of_seconds:.3f} of the seconds"
            )
        figures[str(trials_per_task)] = {
            name: None if one.trials is None else round(one.share_of_trials, 3)
            for name, one in found.items()
        }
    worst = max(compare(models, number).share_of_trials for number in TRIALS_PER_TASK)
    print("RESULT " + json.dumps({"share_of_trials": round(worst, 3), "by_trials": figures}))


if __name__ == "__main__":
    main()
