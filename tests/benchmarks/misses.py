"""How long a report of 200 misses of all reasons takes among 1,000,000 records in SQLite.

A hundred records belong to each of 10,000 workloads, each of which is stored with its likeness, in
four trainings (the same program with other constants), by two compilers, for one of four targets.
A record is as large as a real one (trace; features as 1 KiB; a program as 3 KB). Every run asks for
other keys, made at random from what is stored so that each reason is met equally often; the run
fails where a reason is another than it was made for. Prints the figures of each run, every
statement that reads a whole table, and last `RESULT {json}`. Needs some 5 GB in the folder given
(default: the system's temporary one), and leaves nothing there.

    python tests/benchmarks/misses.py [--folder DIR] [--runs N]
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import random
import sqlite3
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.engine import Engine

from tunebook.cache.buffers import dtypes_text, log_elements, parse_buffers, shapes_text
from tunebook.cache.keys import ScheduleKey, WorkloadKey
from tunebook.cache.likeness import Likeness, LookupHints
from tunebook.cache.misses import MissReason
from tunebook.cache.storage.database import upgrade
from tunebook.cache.store import Store

WORKLOADS = 10_000
RECORDS_PER_WORKLOAD = 100
MISSES = 200
COMPILERS = ("tvm-0.27.0+llvm-22", "tvm-0.26.0+llvm-21")
NEW_COMPILER = "tvm-0.28.0+llvm-23"
TARGETS = tuple(
    f"llvm -mtriple=aarch64-linux-gnu -mcpu={mcpu} -num-cores=4"
    for mcpu in ("cortex-a76", "cortex-a72", "cortex-a53", "neoverse-n1")
)
OPS = ("conv2d+add+relu", "dense+add", "matmul", "depthwise_conv2d+add", "softmax", "concatenate")
TRAININGS = 4
TRACES = Path(__file__).parent.parent / "cache" / "real_traces.json"
# What became of the records of a workload, by its number modulo 20; of the others one is verified.
OWN = {
    16: MissReason.ONLY_FAILURES,
    17: MissReason.UNVERIFIED,
    18: MissReason.EMULATED_ONLY,
    19: MissReason.UNVERIFIED,
}
IMPORTED = 19


@dataclass(frozen=True)
class Stored:
    """The workload with a number."""

    number: int

    @property
    def own(self) -> MissReason | None:
        return OWN.get(self.number % 20)

    @property
    def target(self) -> str:
        return TARGETS[self.program % len(TARGETS)]

    @property
    def features(self) -> str:
        return _digest(self.target)

    @property
    def program(self) -> int:
        """Shared by its trainings."""
        return self.number // TRAININGS

    @property
    def key(self) -> WorkloadKey:
        program = self.program
        height, width = 7 + program % 50, 7 + program // 50
        image = f"f32[1,64,{height},{width}]"
        compiler = COMPILERS[program % 7 == 0]
        return WorkloadKey(
            OPS[program % len(OPS)],
            f"{image} f32[64,64,3,3] -> {image}",
            compiler,
            _digest(f"workload {self.number}"),
        )

    @property
    def likeness(self) -> Likeness:
        return Likeness(
            structure=_digest(f"structure {self.program}"),
            anchor=_digest(f"anchor {self.program}"),
            attributes='{"conv2d.data_layout": "NCHW", "conv2d.strides": [1, 1]}',
            constants=json.dumps([0.5, self.number % TRAININGS]),
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def fill(path: Path) -> None:
    """Bulk-loads a database: waiting for a million transactions would measure something else."""
    upgrade(str(path))
    stored = [Stored(number) for number in range(WORKLOADS)]
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.executemany(
            "INSERT INTO targets (id, text, features) VALUES (?, ?, ?)",
            [(1 + number, text, _digest(text)) for number, text in enumerate(TARGETS)],
        )
        connection.executemany(
            "INSERT INTO workloads (id, op, buffers, compiler, hash, dtypes, shapes, elements,"
            " flops, tir, structure, anchor, attributes, constants)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1e8, ?, ?, ?, ?, ?)",
            map(_workload_row, stored),
        )
        connection.executemany(
            "INSERT INTO records (id, workload_id, target_id, module_hash, emulated, verified,"
            " seconds, error, error_text, source, board, board_class, board_seconds, board_state,"
            " run_seconds, created_at, feature_columns, trace, features) VALUES"
            " (?, ?, ?, ?, ?, ?, ?, ?, '', ?, 'board-1', 'rpi4', 0.1, '{}', ?,"
            " '2026-01-01 00:00:00', 164, ?, ?)",
            _record_rows(stored),
        )
        connection.executemany(
            "INSERT INTO schedules (workload_id, target_id, emulated, record_id, seconds)"
            " VALUES (?, ?, ?, ?, 1e-3)",
            [
                (
                    1 + one.number,
                    1 + TARGETS.index(one.target),
                    one.own is MissReason.EMULATED_ONLY,
                    1 + one.number * RECORDS_PER_WORKLOAD,
                )
                for one in stored
                if one.own in (None, MissReason.EMULATED_ONLY)
            ],
        )
        # No ANALYZE: nobody runs it on a database that is in use.


def _workload_row(one: Stored) -> tuple[object, ...]:
    key, buffers = one.key, parse_buffers(one.key.buffers)
    return (
        *(1 + one.number, key.op, key.buffers, key.compiler, key.hash),
        *(dtypes_text(buffers), shapes_text(buffers), log_elements(buffers)),
        random.Random(one.number).randbytes(3000),
        *dataclasses.astuple(one.likeness),
    )


def _record_rows(stored: list[Stored]) -> Iterator[tuple[object, ...]]:
    traces = [json.dumps(trace) for trace in json.loads(TRACES.read_text()).values()]
    features = b"\0" * 1024
    for one in stored:
        failed = one.own is MissReason.ONLY_FAILURES
        for turn in range(RECORDS_PER_WORKLOAD):
            number = one.number * RECORDS_PER_WORKLOAD + turn
            verified = turn == 0 and one.own in (None, MissReason.EMULATED_ONLY)
            seconds = 1e-3 if turn == 0 else 1e-3 + turn * 1e-5
            yield (
                *(1 + number, 1 + one.number, 1 + TARGETS.index(one.target), f"{number:016x}"),
                *(one.own is MissReason.EMULATED_ONLY, verified, None if failed else seconds),
                "run" if failed else None,
                "import" if one.number % 20 == IMPORTED else "search",
                "[]" if failed else json.dumps([seconds] * 3),
                *(traces[number % len(traces)], features),
            )


@dataclass
class Question:
    """Keys that miss, with what their look-up knows of them and the reason of each."""

    reasons: dict[ScheduleKey, MissReason]
    hints: LookupHints


def make_question(chance: random.Random) -> Question:
    """As many keys of each reason as MISSES allows, no two of one workload."""
    reasons = list(MissReason)
    wanted = Question({}, LookupHints({}, {text: _digest(text) for text in TARGETS}))
    likeness: dict[WorkloadKey, Likeness] = {}
    features = dict(wanted.hints.features)
    served = [number for number in range(0, WORKLOADS, TRAININGS) if number % 20 not in OWN]
    for turn, number in enumerate(chance.sample(served, MISSES)):
        reason = reasons[turn % len(reasons)]
        one = Stored(_of_reason(number, reason))
        key, like, target = _change(one, reason, chance)
        likeness[key] = like
        if reason is MissReason.EQUIVALENT_TARGET:
            features[target] = one.features
        wanted.reasons[key.on(target)] = reason
    return Question(wanted.reasons, LookupHints(likeness, features))


def _of_reason(number: int, reason: MissReason) -> int:
    """A workload near this number whose own records are the reason."""
    modulus = {own: turn for turn, own in OWN.items()}.get(reason)
    return number if modulus is None else number - number % 20 + modulus


def _change(
    one: Stored, reason: MissReason, chance: random.Random
) -> tuple[WorkloadKey, Likeness, str]:
    """A key that misses for the reason; of another program it has another hash and structure."""
    key, like, target = one.key, one.likeness, one.target
    new = f"{chance.getrandbits(64):016x}"
    other = dataclasses.replace(like, structure=new, anchor=new)
    if reason is MissReason.EQUIVALENT_TARGET:
        return key, like, target.replace(" -num", " -mattr=+neon -num")
    if reason is MissReason.OTHER_TARGET:
        return key, like, target.replace("cores=4", "cores=2")
    if reason is MissReason.OTHER_COMPILER:
        return dataclasses.replace(key, compiler=NEW_COMPILER, hash=new), other, target
    if reason is MissReason.OTHER_CONSTANTS:
        like = dataclasses.replace(like, constants="[0.5, 0.25]")
        return dataclasses.replace(key, hash=new), like, target
    if reason is MissReason.OTHER_ATTRIBUTES:
        other = dataclasses.replace(other, attributes=like.attributes.replace("[1, 1]", "[2, 2]"))
        return dataclasses.replace(key, hash=new), other, target
    if reason is MissReason.OTHER_PIPELINE:
        other = dataclasses.replace(other, attributes=like.attributes.replace("NCHW", "NHWC"))
        return dataclasses.replace(key, buffers=_nhwc(key.buffers), hash=new), other, target
    if reason is MissReason.OTHER_FUSION:
        other = dataclasses.replace(other, anchor=like.anchor)
        return dataclasses.replace(key, op=f"{key.op}+sigmoid", hash=new), other, target
    if reason is MissReason.OTHER_SHAPE:
        buffers = key.buffers.replace("[1,64,", "[2,64,")
        return dataclasses.replace(key, buffers=buffers, hash=new), other, target
    if reason is MissReason.OTHER_DTYPE:
        buffers = key.buffers.replace("f32", "f16")
        return dataclasses.replace(key, buffers=buffers, hash=new), other, target
    if reason is MissReason.NEVER_TUNED:
        return dataclasses.replace(key, op="unheard_of", hash=new), other, target
    return key, like, target


def _nhwc(buffers: str) -> str:
    moved = []
    for word in buffers.split():
        dtype, _, shape = word.partition("[")
        extents = shape.rstrip("]").split(",")
        order = [extents[0], *extents[2:], extents[1]] if shape else []
        moved.append(f"{dtype}[{','.join(order)}]" if shape else word)
    return " ".join(moved)


def look_up_once(store: Store, question: Question) -> tuple[float, float]:
    """The milliseconds that a report takes, and those of them that the processor worked, which a
    busy machine changes less; every key must miss for its reason."""
    keys = list(question.reasons)
    start, worked = time.perf_counter(), time.process_time()
    answer = store.lookup(keys, hints=question.hints)
    elapsed, worked = time.perf_counter() - start, time.process_time() - worked
    wrong = [
        f"{miss.key} is {miss.reason.value} and not {question.reasons[miss.key].value}: "
        f"{miss.explanation}"
        for miss in answer.misses
        if miss.reason is not question.reasons[miss.key]
    ]
    assert not answer.hits and not wrong, "\n".join(wrong)
    return elapsed * 1e3, worked * 1e3


def plan_problems(path: Path, store: Store, question: Question) -> list[str]:
    """The steps of SQLite's plans that read a whole table with records, workloads or schedules."""
    statements: dict[str, Any] = {}

    @event.listens_for(Engine, "before_cursor_execute")
    def note(_c: Connection, _u: Any, statement: str, parameters: Any, *_: Any) -> None:
        statements.setdefault(statement, parameters)

    store.lookup(list(question.reasons), hints=question.hints)
    event.remove(Engine, "before_cursor_execute", note)
    problems = []
    with sqlite3.connect(path) as connection:
        for statement, parameters in statements.items():
            if statement.startswith("SELECT"):
                plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
                steps = [str(row[3]) for row in plan]
                whole = ("SCAN records", "SCAN workloads", "SCAN schedules")
                problems += [step for step in steps if step.startswith(whole)]
                problems += [step for step in steps if "ix_records_newest" in step]
    return problems


def measure(folder: Path, runs: int) -> dict[str, Any]:
    start = time.perf_counter()
    path = folder / "misses.db"
    fill(path)
    size = path.stat().st_size / 1e9
    print(f"{size:.2f} GB in {time.perf_counter() - start:.0f} s", flush=True)
    chance = random.Random(1)
    times, processor = [], []
    with Store.open(str(path), read_only=True) as store:
        for run in range(runs + 1):
            question = make_question(chance)
            elapsed, worked = look_up_once(store, question)
            print(f"run {run}: {MISSES} misses: {elapsed:.0f} ms, {worked:.0f} worked", flush=True)
            # The first run opens connections and compiles statements.
            if run:
                times.append(elapsed)
                processor.append(worked)
        problems = plan_problems(path, store, question)
    quartiles = statistics.quantiles(times)
    return {
        "misses": MISSES,
        "records": WORKLOADS * RECORDS_PER_WORKLOAD,
        "median_ms": round(statistics.median(times), 1),
        "median_processor_ms": round(statistics.median(processor), 1),
        "spread_ms": [round(quartiles[0], 1), round(quartiles[2], 1)],
        "reasons": dict(Counter(reason.value for reason in question.reasons.values())),
        "plan_problems": problems,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--runs", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        result = measure(Path(folder), arguments.runs)
    print(f"RESULT {json.dumps(result)}")


if __name__ == "__main__":
    main()
