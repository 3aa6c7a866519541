"""The workloads of a MetaSchedule database, loaded from its file of programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tunebook.cache.errors import InterchangeError
from tunebook.cache.exchange.interchange import BadLineError, parse_workload, version_of
from tunebook.cache.exchange.skipped_lines import SkipCounts, SkipReason
from tunebook.cache.keys import WorkloadKey
from tunebook.cache.records import Workload
from tunebook.cache.store import Store
from tunebook.tuner.compiler import compiler_text, compiler_versions
from tunebook.tuner.interchange.file_progress import Tell, told_lines
from tunebook.tuner.interchange.foreign_programs import ForeignPrograms, LoadProgram, Refused


def import_programs(
    path: Path, store: Store, foreign: ForeignPrograms, skipped: SkipCounts, tell: Tell
) -> list[WorkloadKey | None]:
    """Stores the workloads of a file; gives their keys by line, None for what was left out.

    Raises InterchangeError where the file holds programs and none of them can be loaded.
    """
    reader = _ProgramFile(path, skipped, tell)
    for number, answer in reader.loaded(foreign):
        if isinstance(answer, Workload):
            (reader.keys[number - 1],) = store.interchange.import_workloads([answer])
    if reader.keys and not any(reader.keys):
        raise InterchangeError(reader.why_none())
    return reader.keys


class _ProgramFile:
    """Reads the programs, and remembers the first one, whose form is that of them all."""

    def __init__(self, path: Path, skipped: SkipCounts, tell: Tell) -> None:
        self.keys: list[WorkloadKey | None] = []
        self._path = path
        self._skipped = skipped
        self._tell = tell
        self._numbers: list[int] = []
        self._version: str | None = None

    def loaded(self, foreign: ForeignPrograms) -> Iterator[tuple[int, Workload]]:
        """The programs that could be loaded, with the numbers of their lines."""
        for position, answer in enumerate(foreign.answers(self._messages())):
            number = self._numbers[position]
            if isinstance(answer, Workload):
                yield number, answer
                continue
            assert isinstance(answer, Refused)
            reason = SkipReason.UNREADABLE_PROGRAM
            if answer.untrusted:
                reason = SkipReason.UNTRUSTED_PROGRAM
            self._skipped.add(self._path.name, number, reason, answer.reason)

    def _messages(self) -> Iterator[LoadProgram]:
        for line in told_lines(self._path, "reading programs", self._tell):
            self.keys.append(None)
            try:
                program = parse_workload(line)
            except BadLineError as error:
                self._skipped.add(self._path.name, line.number, SkipReason.BAD_LINE, str(error))
                continue
            if not self._numbers:
                self._version = version_of(program)
            self._numbers.append(line.number)
            yield LoadProgram(program)

    def why_none(self) -> str:
        """Which TVM wrote the file where it says so, and what was wrong with the first program."""
        first = next(iter(self._skipped))
        told = f"line {first.lines[0]}: {first.detail}"
        if self._version in (None, compiler_versions().tvm):
            return f"{compiler_text()} can load none of the programs in {self._path}; {told}"
        return (
            f"{self._path} was written by TVM {self._version}, and {compiler_text()} can load none "
            f"of its programs, whose form changes between versions ({told}); tune the models "
            f"again, or import what TVM {compiler_versions().tvm} wrote"
        )
