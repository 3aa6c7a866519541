"""Seconds and peak memory of importing 100,000 MetaSchedule records into SQLite, against 10,000.

The files are made here: convolutions and dense layers of 50 sizes on two targets, each with traces
of a real design space whose decisions are drawn anew for every record (tile sizes whose product
stays, other unrolling), one in twenty failed. Each import is a process of its own; the large one is
made twice, the second time with everything stored already. Prints each run, and last
`RESULT {json}`. Needs some 1.5 GB in the folder given (default: the system's temporary one).

    python tests/benchmarks/interchange.py [--folder DIR]
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LARGE, SMALL = 100_000, 10_000
TARGETS = (
    "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4",
    "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53 -num-cores=4",
)
SIZES = range(50)
FAILED = 20  # one record in so many
_CATEGORY = "SampleCategorical"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--once", nargs=2, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        print(json.dumps(import_once(*arguments.once)))
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        write_files(folder, {LARGE: folder / "large", SMALL: folder / "small"})
        small = import_in_a_process(folder / "small", folder / "small.db")
        large = import_in_a_process(folder / "large", folder / "large.db")
        again = import_in_a_process(folder / "large", folder / "large.db")
    assert again["new"] == 0
    result = {
        "records": large["read"],
        "stored": large["new"],
        "seconds": large["seconds"],
        "records_per_second": round(large["read"] / large["seconds"]),
        "processor_seconds": large["processor_seconds"],
        "again_seconds": again["seconds"],
        "replayed": large["replayed"],
        f"peak_mb_{SMALL}": small["peak_mb"],
        f"peak_mb_{LARGE}": large["peak_mb"],
        "peak_mb_of_a_loading_process": large["child_peak_mb"],
    }
    print("RESULT " + json.dumps(result))


def import_in_a_process(folder: Path, database: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--once", str(folder), str(database)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{folder.name}: {json.dumps(figures)}", flush=True)
    return figures


def import_once(folder: Path, database: Path) -> dict[str, Any]:
    from tunebook.cache.store import Store
    from tunebook.tuner.interchange.foreign_programs import ForeignPrograms
    from tunebook.tuner.interchange.metaschedule_import import import_database

    with Store.open(str(database)) as store, ForeignPrograms() as foreign:
        start = time.perf_counter()
        report = import_database(folder, store, foreign)
        seconds = time.perf_counter() - start
    skipped = {one.reason.value: one.count for one in report.skipped}
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "read": report.records + sum(skipped.values()),
        "new": report.new_records,
        "replayed": report.replayed,
        "skipped": skipped,
        "seconds": round(seconds, 1),
        "processor_seconds": round(sum(one.ru_utime + one.ru_stime for one in used), 1),
        "peak_mb": used[0].ru_maxrss // 1024,
        "child_peak_mb": used[1].ru_maxrss // 1024,
    }


def write_files(folder: Path, places: dict[int, Path]) -> None:
    """The same kinds of records in both, in the order in which a tuner writes them: a round here,
    a round there."""
    from tunebook.cache.exchange.interchange import InterchangeFiles, record_line, workload_line
    from tunebook.tuner.llvm_targets import tvm_target

    start = time.perf_counter()
    programs = [_program(size) for size in SIZES]
    patterns = [
        (number, target, _traces(tir, target))
        for number, (_, tir) in enumerate(programs)
        for target in TARGETS
    ]
    targets = {one: json.dumps(_plain(tvm_target(one).export())) for one in TARGETS}
    for count, place in places.items():
        place.mkdir()
        files = InterchangeFiles.of(place)
        with files.workloads.open("w", encoding="utf-8") as out:
            out.writelines(workload_line(name, tir) for name, tir in programs)
        chance = random.Random(count)
        with files.records.open("w", encoding="utf-8") as out:
            for line in range(count):
                number, target, traces = patterns[line // 16 % len(patterns)]
                seconds = () if line % FAILED == 0 else (chance.uniform(1e-4, 1e-2),)
                trace = json.dumps(_mutated(chance.choice(traces), chance))
                out.write(record_line(number, trace, seconds, targets[target], "[]"))
        size = files.records.stat().st_size / 1e6
        print(
            f"{count} records: {size:.0f} MB after {time.perf_counter() - start:.0f} s", flush=True
        )


def _program(size: int) -> tuple[str, str]:
    """The hash and JSON text of a normalised program, another for each size."""
    import tvm
    from tvm import te, topi

    from tunebook.tuner.hashing import module_hash
    from tunebook.tuner.splitting.split import normalized

    if size % 5 == 4:
        left = te.placeholder((16 + size, 64), name="left")
        right = te.placeholder((128, 64), name="right")
        tensors = [left, right, topi.nn.relu(topi.nn.dense(left, right))]
    else:
        extent, kernel = 8 + 2 * size, 3 if size % 2 else 1
        data = te.placeholder((1, 32, extent, extent), name="data")
        weight = te.placeholder((64, 32, kernel, kernel), name="weight")
        convolution = topi.nn.conv2d(data, weight, 1, kernel // 2, 1, data_layout="NCHW")
        tensors = [data, weight, topi.nn.relu(convolution)]
    module = normalized(te.create_prim_func(tensors))
    return module_hash(module), tvm.ir.save_json(module)


def _traces(tir: str, target: str) -> list[Any]:
    """Parsed traces of the design space, each with random decisions."""
    import tvm
    from tvm.s_tir import meta_schedule as ms

    from tunebook.tuner.llvm_targets import tvm_target
    from tunebook.tuner.tvm_compat import load_cpu_intrinsics

    load_cpu_intrinsics()
    context = ms.TuneContext(
        mod=tvm.ir.load_json(tir),
        target=tvm_target(target),
        space_generator="post-order-apply",
        rand_state=1,
        num_threads=1,
    )
    postprocessors = context.space_generator.postprocs
    return [
        _plain(schedule.trace.as_json())
        for schedule in context.generate_design_space()
        if all(one.apply(schedule) for one in postprocessors)
    ]


def _mutated(trace: Any, chance: random.Random) -> Any:
    """The trace with other decisions of the same kind."""
    instructions, decisions = trace
    changed = []
    for index, value in decisions:
        if isinstance(value, list):
            changed.append([index, list(_factors(math.prod(value), len(value), chance))])
        elif instructions[index][0] == _CATEGORY:
            changed.append([index, chance.randrange(len(instructions[index][2][0]))])
        else:
            changed.append([index, value])
    return [instructions, changed]


def _factors(extent: int, count: int, chance: random.Random) -> Iterator[int]:
    for _ in range(count - 1):
        divisors = [one for one in range(1, min(extent, 64) + 1) if extent % one == 0]
        factor = chance.choice(divisors)
        extent //= factor
        yield factor
    yield extent


def _plain(value: Any) -> Any:
    """TVM's containers as Python's."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "items"):
        return {str(name): _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if hasattr(value, "__iter__") else value.value


if __name__ == "__main__":
    main()
