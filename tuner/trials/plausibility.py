"""Times that no board of a class can reach, and so must be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from tunebook.cache.work import BoardPeak
from tunebook.tuner.splitting.program import Program
from tunebook.tuner.trials.tensors import byte_count, numpy_dtype

# The peak is what our own kernels reach, and the arithmetic of a program is an estimate.
_MARGIN = 2.0


def plausible_seconds(
    flops: float, bytes_moved: float, peak: BoardPeak, *, operations_per_lane: float = 1.0
) -> float:
    """The shortest time that is believed for so much arithmetic and so many bytes.

    `operations_per_lane` is how many operations of the program's type fit where one of float32
    does. Half of what the peak allows, so that no good schedule is ever refused.
    """
    computing = flops / (peak.flops_per_second * operations_per_lane)
    at_peak = max(computing, bytes_moved / peak.bytes_per_second)
    return at_peak / _MARGIN


def shortest_plausible(program: Program, peak: BoardPeak) -> float:
    """The shortest time that is believed of a program, by its arithmetic and its outputs.

    Its inputs do not count: a gather or a slice reads but a part of them.
    """
    narrowest = min((numpy_dtype(one.dtype).itemsize for one in program.buffers), default=4)
    # sdot, vnni and the like do eight and more operations on bytes where float32 has one.
    lanes = {1: 16.0, 2: 4.0}.get(narrowest, 1.0)
    written = byte_count([one for one in program.buffers if one.output])
    return plausible_seconds(program.flops, written, peak, operations_per_lane=lanes)


def why_implausible(
    program: Program, run_seconds: Sequence[float], peak: BoardPeak | None
) -> str | None:
    """Why times are not believed, in one line; None when they are, or nothing speaks against."""
    if min(run_seconds) <= 0:
        return f"the board's clock says {min(run_seconds):g} s for a run; check its clock"
    if peak is None:
        return None
    measured, shortest = median(run_seconds), shortest_plausible(program, peak)
    if measured >= shortest:
        return None
    return (
        f"{measured:.3g} s are beyond the board's peak, which allows no less than {shortest:.3g} s "
        f"({program.flops:.3g} operations at {peak.flops_per_second:.3g}/s, margin {_MARGIN:g})"
    )
