"""`tunebook import`: records out of MetaSchedule's database files into the cache."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tunebook.cache.errors import ExitCode
from tunebook.cache.exchange.interchange import find_files
from tunebook.service.commands.file_progress_bar import FileProgressBar
from tunebook.service.commands.options import AsJson, DatabaseUrl, open_store
from tunebook.service.import_document import ImportDocument, SkippedDocument
from tunebook.service.output import print_json, print_table, print_text

if TYPE_CHECKING:
    from tunebook.tuner.interchange.metaschedule_import import ImportReport

ImportFolder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        help="A folder with database_workload.json and database_tuning_record.json: the work_dir "
        "of a MetaSchedule run, or what `tunebook export` wrote.",
    ),
]
ImportTarget = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="Import what was tuned for this target only; what names no target, or no number of "
        "cores, is taken to be for it.",
    ),
]


def import_database(
    folder: ImportFolder,
    target: ImportTarget = None,
    db: DatabaseUrl = None,
    as_json: AsJson = False,
) -> int:
    """Import the records of a MetaSchedule run; they are served once they were measured here."""
    # Only here: `tunebook --help` should not wait for TVM.
    from tunebook.tuner.compiler import compiler_text
    from tunebook.tuner.interchange import metaschedule_import
    from tunebook.tuner.interchange.foreign_programs import ForeignPrograms
    from tunebook.tuner.llvm_targets import resolve_target

    wanted = None if target is None else resolve_target(target)
    # Before the store is opened: nothing is made for a folder that cannot be imported.
    find_files(folder, compiler_text())
    bar = FileProgressBar(quiet=as_json)
    with open_store(db) as store, ForeignPrograms() as foreign, bar:
        report = metaschedule_import.import_database(
            folder, store, foreign, target=wanted, tell=bar.show
        )
    if as_json:
        print_json(_document(report))
    else:
        _print(report)
    # A folder out of which nothing could be used is no success, however orderly it was refused.
    return ExitCode.OK if report.records or not report.skipped else ExitCode.FAILURE


def _document(report: ImportReport) -> ImportDocument:
    return ImportDocument(
        compiler=report.compiler,
        targets=list(report.targets),
        workloads=report.workloads,
        records=report.records,
        new_records=report.new_records,
        failures=report.failures,
        replayed=report.replayed,
        skipped=[
            SkippedDocument(
                file=one.file,
                reason=one.reason.value,
                count=one.count,
                lines=list(one.lines),
                detail=one.detail,
            )
            for one in report.skipped
        ],
    )


def _print(report: ImportReport) -> None:
    known = report.records - report.new_records
    print_text(
        f"{report.records} records of {report.workloads} workloads ({report.failures} of them "
        f"failures): {report.new_records} are new, {known} were stored already; "
        f"{report.replayed} traces were replayed."
    )
    for target in report.targets:
        print_text(f"  {target}")
    if report.skipped:
        table = Table()
        table.add_column("left out", justify="right", no_wrap=True)
        table.add_column("why", overflow="fold")
        table.add_column("lines", overflow="fold")
        table.add_column("the first of them", overflow="fold")
        for one in report.skipped:
            more = ", ..." if one.count > len(one.lines) else ""
            lines = f"{one.file}: {', '.join(map(str, one.lines))}{more}"
            table.add_row(str(one.count), one.reason.value, lines, one.detail)
        print_table(table)
    if report.new_records:
        print_text(
            "None of them is served before it was measured here: run `tunebook migrate MODEL "
            "--target T`."
        )
