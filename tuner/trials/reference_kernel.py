"""The reference kernel: what a board takes for it, now and then, tells whether it measures as it
did.

It is one program of ours on one core, which stays in the first-level cache, so that its time
follows the core's clock and what shares the core with it, and nothing else. It is compiled for an
architecture and no CPU in particular, hence the same code whatever target is tuned for; its
arithmetic waits for its own results, which leaves a compiler of another patch level little to
change.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from tunebook.cache.errors import TunebookError
from tunebook.cache.records import Measurement
from tunebook.tuner.llvm_targets import resolve_target
from tunebook.tuner.splitting.program import Program
from tunebook.tuner.trials.build_pool import BuildFuture, BuildPool
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.own_programs import own_program
from tunebook.tuner.trials.trials import BuildFailure, BuildRequest

# It is timed as trials are, which what disturbs them disturbs too, but so many times: the median of
# all repeats does not move when some of them are disturbed.
_TIMES = 3
# 4 lanes are one register everywhere; 8 of them leave half of the fewest that there are.
_LANES = 4
_CHAINS = 8
# 16 KiB of float32: half of the smallest first-level cache.
_STEPS = 128
# Some 0.5 ms on a server's core, and 5 ms on the slowest board's.
_PASSES = 1500

_TEXT = """
@T.prim_func
def main(a: T.Buffer(({steps} * {width},), "float32"), c: T.Buffer(({width},), "float32")):
    T.func_attr({{"tirx.noalias": True, "global_symbol": "main"}})
    sums = T.alloc_buffer(({width},), "float32", scope="local")
    for j in T.unroll({chains}):
        for v in T.vectorized({lanes}):
            sums[j * {lanes} + v] = T.float32(0)
    for again in range({passes}):
        for step in range({steps}):
            for j in T.unroll({chains}):
                for v in T.vectorized({lanes}):
                    sums[j * {lanes} + v] = (
                        sums[j * {lanes} + v] * T.float32(0.5)
                        + a[step * {width} + j * {lanes} + v]
                    )
    for j in T.unroll({chains}):
        for v in T.vectorized({lanes}):
            c[j * {lanes} + v] = sums[j * {lanes} + v]
"""


@cache
def reference_program() -> Program:
    """The program, always the same."""
    width = _CHAINS * _LANES
    text = _TEXT.format(steps=_STEPS, width=width, chains=_CHAINS, lanes=_LANES, passes=_PASSES)
    operations = 2.0 * _PASSES * _STEPS * width
    return own_program(text, "reference", (_STEPS * width,), (width,), operations)


def build_reference(pool: BuildPool, mtriple: str) -> BuildFuture:
    """Begins to build it for an architecture, and no CPU of it in particular.

    Raises TargetError for a triple that LLVM does not know.
    """
    target = str(resolve_target(f"llvm -mtriple={mtriple} -num-cores=1"))
    return pool.submit(BuildRequest(reference_program().tir, target, None))


def measure_reference(measurer: Measurer, build: BuildFuture) -> Measurement:
    """Times it as a trial is timed, some times, which takes a board a fifth of a second.

    Whatever goes wrong on the board is in the Measurement. Raises TunebookError where it does not
    build, and BoardError when no board can be had.
    """
    library = build.result()
    if isinstance(library, BuildFailure):
        raise TunebookError(f"the reference kernel does not build: {library.text}")
    run_seconds: list[float] = []
    for _ in range(_TIMES):
        measured = measurer.measure(library, reference_program())
        if measured.error is not None:
            return measured
        run_seconds += measured.run_seconds
    return replace(measured, run_seconds=tuple(run_seconds))
