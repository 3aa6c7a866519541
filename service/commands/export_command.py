"""`tunebook export`: the cache's records as MetaSchedule's database files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import BaseModel

from tunebook.service.commands.file_progress_bar import FileProgressBar
from tunebook.service.commands.options import AsJson, DatabaseUrl, open_store
from tunebook.service.output import print_json, print_text

if TYPE_CHECKING:
    from tunebook.tuner.interchange.metaschedule_export import ExportReport

ExportFolder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        help="Where database_workload.json and database_tuning_record.json are written; nothing "
        "is overwritten.",
    ),
]
ExportTarget = Annotated[
    str | None, typer.Option("--target", help="Export what was tuned for this target only.")
]
ExportEmulated = Annotated[
    bool,
    typer.Option(
        "--accept-emulated", help="Export what only an emulated board timed, too: TVM cannot tell."
    ),
]


class LeftOutDocument(BaseModel):
    """What was not written: how many of what, and why."""

    count: int
    what: str
    reason: str


class ExportDocument(BaseModel):
    """An export as machines read it."""

    compiler: str
    targets: list[str]
    workloads: int
    records: int
    failures: int
    left_out: list[LeftOutDocument]


def export_database(
    folder: ExportFolder,
    target: ExportTarget = None,
    accept_emulated: ExportEmulated = False,
    db: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Export the cache's records as files that TVM's MetaSchedule reads."""
    # Only here: `tunebook --help` should not wait for TVM.
    from tunebook.tuner.interchange import metaschedule_export
    from tunebook.tuner.interchange.foreign_programs import ForeignPrograms
    from tunebook.tuner.llvm_targets import resolve_target

    wanted = None if target is None else resolve_target(target)
    bar = FileProgressBar(quiet=as_json)
    with open_store(db, read_only=True) as store, ForeignPrograms() as foreign, bar:
        report = metaschedule_export.export_database(
            folder, store, foreign, target=wanted, emulated=accept_emulated, tell=bar.show
        )
    if as_json:
        print_json(_document(report))
    else:
        _print(report)


def _document(report: ExportReport) -> ExportDocument:
    return ExportDocument(
        compiler=report.compiler,
        targets=list(report.targets),
        workloads=report.workloads,
        records=report.records,
        failures=report.failures,
        left_out=[
            LeftOutDocument(count=one.count, what=one.what, reason=one.reason)
            for one in report.left_out
        ],
    )


def _print(report: ExportReport) -> None:
    print_text(
        f"{report.records} records of {report.workloads} workloads ({report.failures} of them "
        f"failures) by {report.compiler}."
    )
    for target in report.targets:
        print_text(f"  {target}")
    for one in report.left_out:
        print_text(f"Left out: {one.count} {one.what} {one.reason}.")
