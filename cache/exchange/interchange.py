"""MetaSchedule's database files, read and written as text: two files of JSON lines.

A line of `database_workload.json` is `[structural hash, program]`, the program being TVM's JSON
text behind its length in eight bytes, in base64. A line of `database_tuning_record.json` is
`[number of the workload's line, [trace, run times, target, arguments]]`, numbered from 0; a trial
that failed has no run times, or 1e10 for one (TVM's src/s_tir/meta_schedule/database/).

What is read was written by others: a line that is not of this form is a BadLineError, which costs
that line alone, and no line is held that is longer than it may be.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tunebook.cache.errors import InterchangeError
from tunebook.cache.untrusted.traces import SIZE_LIMIT

WORKLOADS = "database_workload.json"
RECORDS = "database_tuning_record.json"
FAILED_SECONDS = 1e10
LINE_LIMIT = 4 * SIZE_LIMIT
# Logs of TVM's earlier searches, which a folder may hold instead.
_LOG_ENDINGS = (".json", ".log", ".txt", ".jsonl")
_LENGTH_BYTES = 8


class BadLineError(Exception):
    """What is wrong with one line, in words."""


@dataclass(frozen=True)
class Line:
    """A line of a file, counted from 1; `data` is None where it is too long to be read."""

    number: int
    offset: int
    data: bytes | None


@dataclass(frozen=True)
class FileRecord:
    """A trial as a file has it: the workload's number in the other file, counted from 0, the trace
    as JSON text, the run times in seconds (none: it failed) and TVM's form of the target."""

    workload: int
    trace: str
    run_seconds: tuple[float, ...]
    target: Mapping[str, Any] | None


@dataclass(frozen=True)
class InterchangeFiles:
    """Where the two files are."""

    workloads: Path
    records: Path

    @classmethod
    def of(cls, folder: Path) -> InterchangeFiles:
        return cls(folder / WORKLOADS, folder / RECORDS)

    @property
    def both(self) -> tuple[Path, Path]:
        return self.workloads, self.records


def find_files(folder: Path, reader: str) -> InterchangeFiles:
    """The two files of a folder; `reader` names the TVM that is going to read them.

    Raises InterchangeError where they are not there, for logs of other searches by name, and where
    the file of workloads has lines and none of them is of its form.
    """
    if not folder.exists():
        raise InterchangeError(f"there is no folder {folder}; give the one that holds {WORKLOADS}")
    if not folder.is_dir():
        _refuse_log(folder, reader)
        raise InterchangeError(f"{folder} is no folder; give the one that holds {WORKLOADS}")
    files = InterchangeFiles.of(folder)
    missing = [one.name for one in files.both if not one.is_file()]
    if missing:
        for path in sorted(folder.iterdir()):
            if path.suffix in _LOG_ENDINGS and path.is_file():
                _refuse_log(path, reader)
        raise InterchangeError(
            f"{folder} has no {' and no '.join(missing)}; give the work_dir of a MetaSchedule run, "
            f"or a folder that `tunebook export` wrote"
        )
    for path in files.both:
        _refuse_log(path, reader)
    _refuse_anything_else(files.workloads)
    return files


def _refuse_anything_else(path: Path) -> None:
    """Raises InterchangeError for a file whose lines are all none of the file of workloads."""
    complaint = None
    for line in read_lines(path):
        try:
            parse_workload(line)
        except BadLineError as error:
            complaint = complaint or f"line {line.number}: {error}"
        else:
            return
    if complaint is not None:
        raise InterchangeError(
            f"{path} is no file of a MetaSchedule database ({complaint}); give the work_dir of a "
            f"MetaSchedule run, or a folder that `tunebook export` wrote"
        )


def _refuse_log(path: Path, reader: str) -> None:
    """Raises InterchangeError for a log of AutoTVM or auto_scheduler."""
    line = next(read_lines(path), None)
    try:
        first = json.loads(line.data) if line is not None and line.data is not None else None
    except (ValueError, RecursionError):
        return
    if not isinstance(first, dict):
        return
    if {"input", "config"} <= first.keys():
        said = f"AutoTVM, format {first.get('version')}, by TVM {first.get('tvm_version')}"
    elif {"i", "r"} <= first.keys():
        said = f"auto_scheduler, format {first.get('v')}"
    else:
        return
    raise InterchangeError(
        f"{path} is a log of {said}, whose schedules {reader} cannot replay: it searches with "
        f"MetaSchedule alone; tune the models again"
    )


def read_lines(path: Path, limit: int = LINE_LIMIT) -> Iterator[Line]:
    """The lines of a file one by one; of one longer than `limit` bytes no more is held at once."""
    offset = number = 0
    with path.open("rb") as file:
        while data := file.readline(limit):
            number += 1
            length, end = len(data), data
            while not end.endswith(b"\n") and (end := file.readline(limit)):
                length += len(end)
            yield Line(number, offset, data if length == len(data) else None)
            offset += length


def line_at(file: BinaryIO, offset: int) -> Line:
    """The line that begins at an offset which `read_lines` gave; its number is not known: 0."""
    file.seek(offset)
    return Line(0, offset, file.readline(LINE_LIMIT))


def parse_workload(line: Line) -> str:
    """A program's JSON text. Its hash in the file is not read: whoever loads it makes it anew.

    Raises BadLineError.
    """
    parsed = _parse(line)
    if not isinstance(parsed, list) or len(parsed) != 2 or not isinstance(parsed[1], str):
        raise BadLineError("it is not a structural hash and a program")
    try:
        raw = base64.b64decode(parsed[1], validate=True)
        length = int.from_bytes(raw[:_LENGTH_BYTES], "little")
        text = raw[_LENGTH_BYTES:].decode()
    except (binascii.Error, ValueError):
        raise BadLineError("its program is not text in base64") from None
    if len(raw) != _LENGTH_BYTES + length:
        raise BadLineError("its program is not as long as it says")
    return text


def parse_record(line: Line) -> FileRecord:
    """Raises BadLineError."""
    parsed = _parse(line)
    if (
        not isinstance(parsed, list)
        or len(parsed) != 2
        or type(parsed[0]) is not int
        or not isinstance(parsed[1], list)
        or len(parsed[1]) != 4
    ):
        raise BadLineError("it is not a workload's number and the four parts of a record")
    trace, seconds, target, _ = parsed[1]
    if target is not None and not isinstance(target, dict):
        raise BadLineError("its target is none")
    _write_index_maps_anew(trace)
    return FileRecord(parsed[0], json.dumps(trace), _run_seconds(seconds), target)


def _parse(line: Line) -> Any:
    if line.data is None:
        raise BadLineError(f"it is longer than {LINE_LIMIT} bytes")
    try:
        return json.loads(line.data)
    except (ValueError, RecursionError):
        raise BadLineError("it is not JSON") from None


def _write_index_maps_anew(trace: Any) -> None:
    """Index maps are texts of JSON inside a trace, indented in files and nowhere else; what is no
    trace stays as it is."""
    for instruction in _items_at(trace, 0):
        inputs = _items_at(instruction, 1)
        for position, value in enumerate(inputs):
            if not isinstance(value, str) or not value.startswith("{"):
                continue
            with suppress(ValueError, RecursionError):
                inputs[position] = json.dumps(
                    json.loads(value), separators=(",", ":"), ensure_ascii=False
                )


def _items_at(value: Any, position: int) -> list[Any]:
    """The list at a position of a list; none where there is no such."""
    if not isinstance(value, list) or len(value) <= position:
        return []
    return value[position] if isinstance(value[position], list) else []


def _run_seconds(parsed: Any) -> tuple[float, ...]:
    """The times that were measured; TVM takes a trial for failed when none was."""
    values = [] if parsed is None else parsed
    if not isinstance(values, list) or not all(type(one) in (int, float) for one in values):
        raise BadLineError("its run times are no numbers")
    try:
        seconds = tuple(map(float, values))
    except OverflowError:
        raise BadLineError("its run times are no times") from None
    measured = tuple(one for one in seconds if one != FAILED_SECONDS)
    if not all(math.isfinite(one) and 0.0 < one < FAILED_SECONDS for one in measured):
        raise BadLineError("its run times are no times")
    return measured


def version_of(program: str) -> str | None:
    """The TVM that wrote a program's JSON text, as far as the text says."""
    try:
        parsed = json.loads(program)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict):
        return None
    # TVMs before the one with tvm-ffi put it into `attrs`.
    for place in (parsed.get("metadata"), parsed.get("attrs")):
        if isinstance(place, dict) and isinstance(place.get("tvm_version"), str):
            return str(place["tvm_version"])
    return None


def workload_line(workload_hash: str, program: str) -> str:
    """A line of the file of workloads; `workload_hash` is 16 hex digits as in a key."""
    raw = program.encode()
    framed = len(raw).to_bytes(_LENGTH_BYTES, "little") + raw
    return json.dumps([str(int(workload_hash, 16)), base64.b64encode(framed).decode()]) + "\n"


def record_line(
    workload: int, trace: str, run_seconds: Sequence[float], target: str, arguments: str
) -> str:
    """A line of the file of records; no run times stand for a failure, as TVM writes it. `trace`,
    `target` and `arguments` are JSON texts."""
    seconds = json.dumps(list(run_seconds) or [FAILED_SECONDS])
    return f"[{workload}, [{trace}, {seconds}, {target}, {arguments}]]\n"
