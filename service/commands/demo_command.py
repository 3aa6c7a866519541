"""`tunebook demo`: the main job from end to end on this machine, told step by step."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import BaseModel

from tunebook.cache.errors import TunebookError
from tunebook.cache.misses import Miss, ScheduleMissError
from tunebook.cache.remote.miss_documents import MissDocument, miss_document
from tunebook.cache.targets import Target
from tunebook.service.commands.build_command import BuildDocument, build_document
from tunebook.service.commands.migrate_command import (
    MigrateDocument,
    migrate_document,
    print_migrate_summary,
)
from tunebook.service.commands.options import AsJson, DatabaseUrl, open_store
from tunebook.service.commands.tune_view import (
    ProgressView,
    TuneDocument,
    print_tune_report,
    print_tune_summary,
    tune_document,
)
from tunebook.service.mending import CommandOptions, MendableCache, database_to_name
from tunebook.service.output import (
    print_json,
    print_text,
    show_misses,
    show_seconds,
)

if TYPE_CHECKING:
    from tunebook.tuner.builds.compiled_model import CompiledModel
    from tunebook.tuner.importing.imported_model import ImportedModel
    from tunebook.workers.commands.migration import MigrationReport
    from tunebook.workers.commands.tuning import TuneReport, TuningPlan


# Of probabilities; sums in another order differ by less.
_LARGEST_DIFFERENCE = 1e-3
# Of each schedule that misses in the end: a quick demo, and one to spare.
_TRIALS_TO_MEND = 2


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
    migration: MigrateDocument
    mended_build: BuildDocument


def demo(
    trials: Annotated[int, typer.Option("--trials", help="The budget of trials.")] = 300,
    db: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Tune a real model, build it, compare it, tune it again, miss on another target, mend that."""
    with tempfile.TemporaryDirectory(prefix="tunebook-demo-") as name:
        document = _Demo(Path(name), db, trials, quiet=as_json).run()
    if as_json:
        print_json(document)


class _Demo:
    """The steps of the demo; `folder` is for what goes away with it."""

    def __init__(self, folder: Path, db: str | None, trials: int, *, quiet: bool) -> None:
        # Only here, as in the steps: `tunebook --help` should not wait for TVM.
        from tunebook.tuner.llvm_targets import resolve_target
        from tunebook.workers.commands.demonstration import demo_model

        self._folder = folder
        self._given_db = db
        self._db = db or str(folder / "demo.db")
        self._trials = trials
        self._quiet = quiet
        self._path = demo_model()
        self._target = resolve_target("host")

    def run(self) -> DemoDocument:
        """Runs every step. Raises TunebookError where one does not end as it must."""
        from tunebook.tuner.importing.frontend import read_model
        from tunebook.workers.commands.demonstration import DEMO_SHAPES

        plan = self._plan(self._target, self._trials)
        first = self._tune(plan)
        model = read_model(self._path, DEMO_SHAPES)
        tuned, untuned = self._build(model, len(first.tasks))
        comparison = self._compare(untuned, tuned)
        second = self._tune_again(plan)
        other, misses = self._miss(model)
        migrated, mended = self._mend(model, other)
        return DemoDocument(
            first_tune=tune_document(first),
            build=build_document(tuned),
            comparison=comparison,
            second_tune=tune_document(second),
            missed_target=str(other),
            misses=[miss_document(miss) for miss in misses],
            migration=migrate_document(migrated, migrated.answer.misses),
            mended_build=build_document(mended),
        )

    def _plan(self, target: Target, trials: int | None) -> TuningPlan:
        from tunebook.workers.commands.demonstration import DEMO_SHAPES
        from tunebook.workers.commands.tuning import BoardRequest, BudgetRequest, plan_tuning

        return plan_tuning(
            self._path,
            target,
            shapes=DEMO_SHAPES,
            budget=BudgetRequest(trials=trials),
            board=BoardRequest(),
        )

    def _tune(self, plan: TuningPlan) -> TuneReport:
        name = self._path.name
        self._say(f"1. Tune {name} of the package magika for this machine: {self._target}")
        report = self._run_tuning(plan)
        if not self._quiet:
            print_tune_report(report)
        return report

    def _build(self, model: ImportedModel, tasks: int) -> tuple[CompiledModel, CompiledModel]:
        """The build from the cache, and one without any schedule."""
        from tunebook.tuner.builds.compile_model import compile_model

        self._say("2. Build it from the cache; every task must hit")
        output = self._folder / "tuned"
        with open_store(self._db) as store:
            tuned = compile_model(model, self._target, cache=store, output=output)
        output = self._folder / "untuned"
        with open_store(str(self._folder / "empty.db")) as empty:
            untuned = compile_model(model, self._target, cache=empty, on_miss="warn", output=output)
        self._say(f"   {tuned.hits} of {tasks} schedules came from the cache")
        return tuned, untuned

    def _compare(self, untuned: CompiledModel, tuned: CompiledModel) -> ComparisonDocument:
        from tunebook.workers.commands.demonstration import compare

        self._say("3. Compare it with onnxruntime, and with the untuned build")
        comparison = compare(self._path, untuned, tuned, self._target.num_cores)
        self._say(
            f"   largest difference to onnxruntime: {comparison.largest_difference:.2e}\n"
            f"   median of {comparison.runs} runs in turn: "
            f"untuned {show_seconds(comparison.untuned_seconds)}, "
            f"tuned {show_seconds(comparison.tuned_seconds)}, "
            f"onnxruntime {show_seconds(comparison.onnxruntime_seconds)}"
        )
        if not comparison.largest_difference <= _LARGEST_DIFFERENCE:
            raise TunebookError(
                f"the build differs from onnxruntime by {comparison.largest_difference:.2e}, more "
                f"than {_LARGEST_DIFFERENCE:g}"
            )
        return ComparisonDocument(**vars(comparison))

    def _tune_again(self, plan: TuningPlan) -> TuneReport:
        self._say("4. Tune it again: nothing is left to measure")
        report = self._run_tuning(plan)
        if not self._quiet:
            print_tune_summary(report)
        if report.run.trials:
            raise TunebookError(f"tuning again measured {report.run.trials} trials, not none")
        return report

    def _miss(self, model: ImportedModel) -> tuple[Target, tuple[Miss, ...]]:
        """A target that nothing was tuned for, and its misses."""
        from tunebook.tuner.builds.compile_model import compile_model
        from tunebook.workers.commands.demonstration import DEMO_SHAPES, one_attribute_more

        other = one_attribute_more(self._target)
        self._say(f"5. Build it for the same machine with one attribute more: {other}")
        output = self._folder / "missed"
        options = CommandOptions(
            self._path,
            output,
            tuple(f"{name}={','.join(map(str, shape))}" for name, shape in DEMO_SHAPES.items()),
            database_to_name(self._given_db),
        )
        try:
            with open_store(self._db) as store:
                compile_model(model, other, cache=MendableCache(store, options), output=output)
        except ScheduleMissError as error:
            self._say(f"   refused: {error}\n{show_misses(error.misses)}")
            return other, error.misses
        raise TunebookError(f"the build for {other} found schedules that were never tuned for it")

    def _mend(self, model: ImportedModel, other: Target) -> tuple[MigrationReport, CompiledModel]:
        """Makes what missed from what was tuned, and builds again."""
        from tunebook.tuner.builds.compile_model import compile_model
        from tunebook.workers.commands.migration import migrate

        self._say("6. Mend that without a search: the same schedules, verified and measured")
        plan = self._plan(other, None)
        with open_store(self._db) as store, ProgressView(quiet=self._quiet) as view:
            report = migrate(plan, store, view.show, trials_per_task=_TRIALS_TO_MEND)
            if not self._quiet:
                print_migrate_summary(report)
            mended = compile_model(model, other, cache=store, output=self._folder / "mended")
        self._say(f"   {mended.hits} of {len(plan.model.keys)} schedules came from the cache")
        return report, mended

    def _run_tuning(self, plan: TuningPlan) -> TuneReport:
        from tunebook.workers.commands.tuning import tune

        with open_store(self._db) as store, ProgressView(quiet=self._quiet) as view:
            return tune(plan, store, view.show)

    def _say(self, text: str) -> None:
        if not self._quiet:
            print_text(text)
