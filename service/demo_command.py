"""`tunebook demo`: the main job from end to end on this machine, told step by step."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import BaseModel

from tunebook.cache.errors import TunebookError
from tunebook.cache.misses import ScheduleMissError
from tunebook.service.build_command import BuildDocument, build_document
from tunebook.service.options import AsJson, DatabaseUrl, open_store
from tunebook.service.output import (
    MissDocument,
    miss_document,
    print_json,
    print_text,
    show_misses,
    show_seconds,
)
from tunebook.service.tune_view import (
    ProgressView,
    TuneDocument,
    print_tune_report,
    tune_document,
)

if TYPE_CHECKING:
    from tunebook.workers.tuning import TuneReport


class ComparisonDocument(BaseModel):
    """The tuned build beside the untuned one and onnxruntime; times in seconds."""

    largest_difference: float
    untuned_seconds: float
    tuned_seconds: float
    onnxruntime_seconds: float
    runs: int


class DemoDocument(BaseModel):
    """The demo as machines read it."""

    first_tune: TuneDocument
    build: BuildDocument
    comparison: ComparisonDocument
    second_tune: TuneDocument
    missed_target: str
    misses: list[MissDocument]


def demo(
    trials: Annotated[int, typer.Option("--trials", help="The budget of trials.")] = 300,
    db: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Tune a real model, build it, compare it, tune it again, and miss on another target."""
    with tempfile.TemporaryDirectory(prefix="tunebook-demo-") as name:
        document = _Demo(Path(name), db, trials, quiet=as_json).run()
    if as_json:
        print_json(document)


class _Demo:
    """The steps of the demo; `folder` is for what goes away with it."""

    def __init__(self, folder: Path, db: str | None, trials: int, *, quiet: bool) -> None:
        self._folder = folder
        self._db = db or str(folder / "demo.db")
        self._trials = trials
        self._quiet = quiet

    def run(self) -> DemoDocument:
        """Runs every step. Raises TunebookError where one does not end as it must."""
        # Only here: `tunebook --help` should not wait for TVM.
        from tunebook.tuner.compile_model import compile_model
        from tunebook.tuner.frontend import read_model
        from tunebook.tuner.llvm_targets import resolve_target
        from tunebook.workers.demonstration import (
            DEMO_SHAPES,
            compare,
            demo_model,
            one_attribute_more,
        )
        from tunebook.workers.tuning import BoardRequest, BudgetRequest, plan_tuning, tune

        path = demo_model()
        target = resolve_target("host")

        plan = plan_tuning(
            path,
            target,
            shapes=DEMO_SHAPES,
            budget=BudgetRequest(trials=self._trials),
            board=BoardRequest(),
        )

        def run_tuning() -> TuneReport:
            with open_store(self._db) as store, ProgressView(quiet=self._quiet) as view:
                return tune(plan, store, view.show)

        self._say(f"1. Tune {path.name} of the package magika for this machine: {target}")
        first = run_tuning()
        self._table(first)

        self._say("2. Build it from the cache; every task must hit")
        model = read_model(path, DEMO_SHAPES)
        with open_store(self._db) as store:
            tuned = compile_model(model, target, cache=store, output=self._folder / "tuned")
        with open_store(str(self._folder / "empty.db")) as empty:
            untuned = compile_model(
                model, target, cache=empty, on_miss="warn", output=self._folder / "untuned"
            )
        self._say(f"   {tuned.hits} of {len(first.tasks)} schedules came from the cache")

        self._say("3. Compare it with onnxruntime, and with the untuned build")
        comparison = compare(path, untuned, tuned, target.num_cores)
        self._say(
            f"   largest difference to onnxruntime: {comparison.largest_difference:.2e}\n"
            f"   median of {comparison.runs} runs in turn: "
            f"untuned {show_seconds(comparison.untuned_seconds)}, "
            f"tuned {show_seconds(comparison.tuned_seconds)}, "
            f"onnxruntime {show_seconds(comparison.onnxruntime_seconds)}"
        )

        self._say("4. Tune it again: nothing is left to measure")
        second = run_tuning()
        self._table(second)
        if second.run.trials:
            raise TunebookError(f"tuning again measured {second.run.trials} trials, not none")

        other = one_attribute_more(target)
        self._say(f"5. Build it for the same machine with one attribute more: {other}")
        try:
            with open_store(self._db) as store:
                compile_model(model, other, cache=store, output=self._folder / "missed")
        except ScheduleMissError as error:
            self._say(f"   refused: {error}\n{show_misses(error.misses)}")
            return DemoDocument(
                first_tune=tune_document(first),
                build=build_document(tuned),
                comparison=ComparisonDocument(**vars(comparison)),
                second_tune=tune_document(second),
                missed_target=str(other),
                misses=[miss_document(miss) for miss in error.misses],
            )
        raise TunebookError(f"the build for {other} found schedules that were never tuned for it")

    def _say(self, text: str) -> None:
        if not self._quiet:
            print_text(text)

    def _table(self, report: TuneReport) -> None:
        if not self._quiet:
            print_tune_report(report)
