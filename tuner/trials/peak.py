"""What a board can do at best, measured with kernels of our own."""

from __future__ import annotations

from dataclasses import dataclass

from tunebook.cache.errors import TunebookError
from tunebook.cache.records import Measurement
from tunebook.cache.work import BoardPeak
from tunebook.tuner.splitting.program import Program
from tunebook.tuner.trials.build_pool import BuildPool
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.own_programs import own_program
from tunebook.tuner.trials.trials import BuildFailure, BuildRequest, BuiltLibrary

_LANES = 16
# Accumulators of 16 lanes each: enough of them hide the latency of an operation, too many do not
# fit into the registers, and how many are best depends on the width of the machine's vectors.
_ACCUMULATORS = (3, 7, 14)
# A run of some 100 us fits between two interruptions, and of many runs one is undisturbed.
_STEPS = 50_000
_MOST_RUNS = 300
_FEWEST_RUNS = 10
_RUNS_SECONDS = 0.1
# 8 KiB of float32 a core stays in any first-level cache.
_RESIDENT_STEPS = 32
_RESIDENT_ACCUMULATORS = 4
_PASSES = 4_000

_MULTIPLY_ADD = """
@T.prim_func
def main(a: T.Buffer(({lanes},), "float32"), c: T.Buffer(({cores}, {width}), "float32")):
    T.func_attr({{"tirx.noalias": True, "global_symbol": "main"}})
    for core in T.parallel({cores}):
        sums = T.alloc_buffer(({width},), "float32", scope="local")
        for j in T.unroll({accumulators}):
            for v in T.vectorized({lanes}):
                sums[j * {lanes} + v] = a[v]
        for step in range({steps}):
            for j in T.unroll({accumulators}):
                for v in T.vectorized({lanes}):
                    sums[j * {lanes} + v] = sums[j * {lanes} + v] * a[v] + T.float32(0.5)
        for j in T.unroll({accumulators}):
            for v in T.vectorized({lanes}):
                c[core, j * {lanes} + v] = sums[j * {lanes} + v]
"""
_RESIDENT_SUM = """
@T.prim_func
def main(a: T.Buffer(({cores}, {steps} * {width}), "float32"),
         c: T.Buffer(({cores}, {width}), "float32")):
    T.func_attr({{"tirx.noalias": True, "global_symbol": "main"}})
    for core in T.parallel({cores}):
        sums = T.alloc_buffer(({width},), "float32", scope="local")
        for j in T.unroll({accumulators}):
            for v in T.vectorized({lanes}):
                sums[j * {lanes} + v] = T.float32(0)
        for again in range({passes}):
            for step in range({steps}):
                for j in T.unroll({accumulators}):
                    for v in T.vectorized({lanes}):
                        sums[j * {lanes} + v] = (
                            sums[j * {lanes} + v] + a[core, step * {width} + j * {lanes} + v]
                        )
        for j in T.unroll({accumulators}):
            for v in T.vectorized({lanes}):
                c[core, j * {lanes} + v] = sums[j * {lanes} + v]
"""


@dataclass(frozen=True)
class _PeakKernel:
    """A program of ours, with the operations and the bytes of one run."""

    program: Program
    operations: float
    bytes_read: float


def measure_peak(pool: BuildPool, measurer: Measurer, target: str) -> BoardPeak:
    """The peak of the measurer's board for code of a canonical target.

    Takes about a second. Nothing else may run meanwhile where the board is this machine. Means
    nothing on an emulated board, whose arithmetic costs what the emulator makes of it. Raises
    BoardError when no board can be had, TunebookError when a kernel does not run there.
    """
    multiply_add = [_multiply_add(measurer.num_cores, one) for one in _ACCUMULATORS]
    resident_sum = _resident_sum(measurer.num_cores)
    kernels = [*multiply_add, resident_sum]
    requests = [BuildRequest(one.program.tir, target, None) for one in kernels]
    builds = [pool.submit(request) for request in requests]
    # All of them first: building would disturb a measurement.
    libraries = [build.result() for build in builds]
    seconds = [_fastest(measurer, *one) for one in zip(kernels, libraries, strict=True)]
    rates = [one.operations / time for one, time in zip(multiply_add, seconds, strict=False)]
    return BoardPeak(max(rates), resident_sum.bytes_read / seconds[-1])


def _fastest(
    measurer: Measurer, kernel: _PeakKernel, library: BuiltLibrary | BuildFailure
) -> float:
    """The shortest time of a run: a peak is what nothing disturbed."""
    if isinstance(library, BuildFailure):
        raise TunebookError(
            f"the kernel that measures a board's peak does not build: {library.text}"
        )
    seconds = min(_times(measurer.measure(library, kernel.program)))
    runs = min(_MOST_RUNS, max(_FEWEST_RUNS, int(_RUNS_SECONDS / seconds)))
    seconds = min(_times(measurer.measure_single_runs(library, kernel.program, runs)))
    library.path.unlink(missing_ok=True)
    return seconds


def _times(measured: Measurement) -> tuple[float, ...]:
    if measured.error is None:
        return measured.run_seconds
    raise TunebookError(
        f"the kernel that measures a board's peak fails there with {measured.error.value}: "
        f"{measured.error_text}"
    )


def _multiply_add(cores: int, accumulators: int) -> _PeakKernel:
    width = accumulators * _LANES
    text = _MULTIPLY_ADD.format(
        cores=cores, lanes=_LANES, accumulators=accumulators, width=width, steps=_STEPS
    )
    operations = 2.0 * cores * width * _STEPS
    program = own_program(text, "multiply-add", (_LANES,), (cores, width), operations)
    return _PeakKernel(program, operations, bytes_read=0.0)


def _resident_sum(cores: int) -> _PeakKernel:
    width = _RESIDENT_ACCUMULATORS * _LANES
    text = _RESIDENT_SUM.format(
        cores=cores,
        lanes=_LANES,
        accumulators=_RESIDENT_ACCUMULATORS,
        width=width,
        steps=_RESIDENT_STEPS,
        passes=_PASSES,
    )
    values = float(cores * _RESIDENT_STEPS * width * _PASSES)
    shape = (cores, _RESIDENT_STEPS * width)
    program = own_program(text, "resident-sum", shape, (cores, width), values)
    return _PeakKernel(program, values, bytes_read=4 * values)
