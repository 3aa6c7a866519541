"""Writes records as MetaSchedule's database files, which stock TVM reads.

TVM replays every record while it reads the file, and one that does not replay makes the whole file
unreadable. What was measured here was replayed then; what was imported without is replayed now,
and left out where that fails.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TextIO

import tvm
from tvm.s_tir import meta_schedule as ms

from tunebook.cache.errors import InterchangeError, UntrustedTraceError
from tunebook.cache.exchange.interchange import InterchangeFiles, record_line, workload_line
from tunebook.cache.keys import WorkloadKey
from tunebook.cache.store import Store
from tunebook.cache.stored.exported_records import ExportedRecord, ExportSurvey
from tunebook.cache.stored.imported_records import is_replayed
from tunebook.cache.targets import Target
from tunebook.cache.untrusted.traces import check_trace
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.interchange.file_progress import FileProgress, Tell
from tunebook.tuner.interchange.foreign_programs import ForeignPrograms, Refused, ReplayTrace
from tunebook.tuner.llvm_targets import tvm_target
from tunebook.tuner.traces.blocks import with_names_of

_PAGE = 500


@dataclass(frozen=True)
class LeftOut:
    """What was not written: how many of what, and why."""

    count: int
    what: str
    reason: str


@dataclass(frozen=True)
class ExportReport:
    """What was written, and what was not."""

    compiler: str
    targets: tuple[str, ...]
    workloads: int
    records: int
    failures: int
    left_out: tuple[LeftOut, ...]


def export_database(
    folder: Path,
    store: Store,
    foreign: ForeignPrograms,
    *,
    target: Target | None = None,
    emulated: bool = False,
    tell: Tell = lambda _: None,
) -> ExportReport:
    """Writes the two files into a folder, which is made where it is not there.

    All records by this compiler, of one target only where it is given, and those of emulated boards
    only where they are asked for: stock TVM cannot tell them apart. Both files are written beside
    their places and then renamed. Raises InterchangeError where either is there already, where the
    folder is a file, and where nothing is stored for the target that is given.
    """
    if folder.exists() and not folder.is_dir():
        raise InterchangeError(f"{folder} is a file; give a folder")
    files = InterchangeFiles.of(folder)
    for path in files.both:
        if path.exists():
            raise InterchangeError(f"{path} is there already; give another folder, or remove it")
    text = None if target is None else str(target)
    survey = store.interchange.export_survey(compiler_text(), text)
    total = survey.records + (survey.emulated if emulated else 0)
    if text is not None and total == 0:
        raise InterchangeError(_nothing(text, survey))
    folder.mkdir(parents=True, exist_ok=True)
    with _written(files) as (workloads, records):
        written = _Files(workloads, records, store, foreign)
        for page in _pages(store, text, emulated):
            written.write(page)
            tell(FileProgress("writing records", written.seen, total))
    return ExportReport(
        compiler=compiler_text(),
        targets=tuple(sorted(written.targets)),
        workloads=len(written.numbers),
        records=written.records,
        failures=written.failures,
        left_out=(*_left_out(survey, emulated), *written.left_out),
    )


def _pages(
    store: Store, target: str | None, emulated: bool
) -> Iterator[tuple[ExportedRecord, ...]]:
    after = 0
    while page := store.interchange.exported_records(
        compiler_text(), target, emulated=emulated, after=after, limit=_PAGE
    ):
        yield page
        after = page[-1].id


@contextmanager
def _written(files: InterchangeFiles) -> Iterator[tuple[TextIO, TextIO]]:
    """Files to write into, which get their names once both are whole."""
    places = {path: path.with_name(f".{path.name}.{os.getpid()}.part") for path in files.both}
    try:
        with ExitStack() as stack:
            first, second = (
                stack.enter_context(part.open("x", encoding="utf-8")) for part in places.values()
            )
            yield first, second
        for path, part in places.items():
            part.replace(path)
    finally:
        for part in places.values():
            part.unlink(missing_ok=True)


def _nothing(target: str, survey: ExportSurvey) -> str:
    told = f"nothing was exported: {compiler_text()} has no records for {target}"
    if survey.emulated:
        return f"{told} but {survey.emulated} of emulated boards; give --accept-emulated for them"
    if survey.other_compilers:
        return f"{told}, only {' and '.join(survey.other_compilers)} has; tune the models again"
    return f"{told}; tune for it first, or give another target"


def _left_out(survey: ExportSurvey, emulated: bool) -> Iterator[LeftOut]:
    for compiler, count in survey.other_compilers.items():
        yield LeftOut(
            count, "workloads", f"of {compiler}: this is {compiler_text()}, which cannot read them"
        )
    if survey.emulated and not emulated:
        yield LeftOut(
            survey.emulated,
            "records",
            "of emulated boards, whose times stock TVM would take for real ones",
        )


@dataclass(frozen=True)
class _Program:
    """A workload's program, and its arguments as MetaSchedule describes them, in JSON."""

    tir: str
    module: Any
    arguments: str

    @classmethod
    def of(cls, tir: str) -> _Program:
        module = tvm.ir.load_json(tir)
        arguments = ms.arg_info.ArgInfo.from_entry_func(module, remove_preproc=True)
        return cls(tir, module, json.dumps([argument.as_json() for argument in arguments]))

    def renamed(self, trace: str) -> str:
        """The trace with the names that blocks have here: a record of the same program may come
        out of another model, and stock TVM goes by names."""
        instructions, decisions = json.loads(trace)
        named = with_names_of(self.module, instructions)
        return trace if named is instructions else json.dumps([named, decisions])


@dataclass
class _Files:
    """What was written so far: `numbers` are the workloads' lines, counted from 0."""

    workload_file: TextIO
    record_file: TextIO
    store: Store
    foreign: ForeignPrograms
    numbers: dict[WorkloadKey, int] = field(default_factory=dict)
    targets: set[str] = field(default_factory=set)
    seen: int = 0
    records: int = 0
    failures: int = 0
    _programs: dict[WorkloadKey, _Program] = field(default_factory=dict)
    _refused: Counter[str] = field(default_factory=Counter)

    def write(self, page: tuple[ExportedRecord, ...]) -> None:
        """Writes the records of a page, and the workloads that come up for the first time."""
        self.seen += len(page)
        trusted = [record for record in page if self._is_trusted(record)]
        traces = [self._program(one.key.workload).renamed(one.trace) for one in trusted]
        left_out = self._not_replaying(trusted, traces)
        for record, trace in zip(trusted, traces, strict=True):
            if record.id not in left_out:
                self._write_record(record, trace)

    @property
    def left_out(self) -> Iterator[LeftOut]:
        for reason, count in self._refused.items():
            yield LeftOut(count, "records", reason)

    def _is_trusted(self, record: ExportedRecord) -> bool:
        try:
            check_trace(record.trace)
        except UntrustedTraceError:
            self._refused["whose trace holds what is not on the list"] += 1
            return False
        return True

    def _not_replaying(self, records: list[ExportedRecord], traces: list[str]) -> set[int]:
        """Of the traces that nobody has replayed as they are written, those that do not."""
        unknown = [
            (record, trace)
            for record, trace in zip(records, traces, strict=True)
            if trace != record.trace or not is_replayed(record.module_hash)
        ]
        messages = (
            ReplayTrace(self._program(record.key.workload).tir, trace) for record, trace in unknown
        )
        answers = zip(unknown, self.foreign.answers(messages), strict=True)
        refused = {record.id for (record, _), answer in answers if isinstance(answer, Refused)}
        if refused:
            self._refused["whose trace does not replay"] += len(refused)
        return refused

    def _write_record(self, record: ExportedRecord, trace: str) -> None:
        program = self._program(record.key.workload)
        number = self._number_of(record.key.workload)
        target = _target_json(record.key.target)
        self.record_file.write(
            record_line(number, trace, record.run_seconds, target, program.arguments)
        )
        self.targets.add(record.key.target)
        self.records += 1
        self.failures += not record.run_seconds

    def _program(self, key: WorkloadKey) -> _Program:
        if key not in self._programs:
            self._programs[key] = _Program.of(self.store.workload(key).tir)
        return self._programs[key]

    def _number_of(self, key: WorkloadKey) -> int:
        if key not in self.numbers:
            self.workload_file.write(workload_line(key.hash, self._program(key).tir))
            self.numbers[key] = len(self.numbers)
        return self.numbers[key]


@cache
def _target_json(target: str) -> str:
    """A canonical target in TVM's own form."""
    fields = tvm_target(target).export()
    plain = {
        str(name): value if isinstance(value, bool | int | str) else list(value)
        for name, value in fields.items()
    }
    return json.dumps(plain, ensure_ascii=False)
