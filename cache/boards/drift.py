"""Whether a board still measures as it did: arithmetic on the times of its reference kernel.

A board is compared with itself. Its baseline stands where its first good measurements were, and
does not move: records of all times are compared with each other, and a baseline that followed a
board which slows down a little each week would call no week a drift. How far a measurement may lie
from it is learnt from how its newest good ones scatter about their own middle, so a board that is
slowly leaving its place does not widen what it is allowed. A board that is another one from now on
(a new cooler, a new governor) begins a new baseline when a person says so.

Middle and scatter are the median and the median absolute deviation, since up to half of the
measurements may be disturbed without moving them (Rousseeuw and Croux, Alternatives to the Median
Absolute Deviation, 1993).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

# Before so many measurements nobody judges.
FEWEST_RUNS = 5
# So many of the first good ones say where the baseline stands.
BASE_RUNS = 20
# So many of the newest good ones say how they scatter.
NEWEST_RUNS = 40
# The spread, as a share of the baseline: what clocks and other programs' interrupts make of a board
# that is well, and what no board that is good for measuring exceeds.
LEAST_SPREAD = 0.05
MOST_SPREAD = 0.5
# In standard deviations, for which so many median absolute deviations stand where the scatter is
# that of a normal distribution.
_DEVIATIONS = 5.0
_DEVIATIONS_IN_MAD = 1.4826
# Longer than anything that a board truly says.
_LONGEST_WORD = 60
_MOST_FLAGS = 8


@dataclass(frozen=True)
class Baseline:
    """What a board's reference kernel takes in seconds, give or take `spread`, a share of them."""

    seconds: float
    spread: float

    def holds(self, seconds: float) -> bool:
        """Whether a measurement lies within. Twice as fast is as far away as twice as slow."""
        slower = seconds / self.seconds
        return max(slower, 1 / slower) <= 1 + self.spread


@dataclass(frozen=True)
class Judgement:
    """What a measurement means: `within` the board's own spread or beyond it, and whether the board
    is in quarantine from now on."""

    within: bool
    in_quarantine: bool


def baseline_of(first: Sequence[float], newest: Sequence[float]) -> Baseline | None:
    """The baseline of a board by its good measurements, of which `first` are the oldest BASE_RUNS
    and `newest` the newest NEWEST_RUNS, all in seconds and above 0; None where there are too few
    to judge by."""
    if len(first) < FEWEST_RUNS:
        return None
    middle = median(newest)
    scatter = median(abs(seconds - middle) for seconds in newest) / middle
    spread = _DEVIATIONS * _DEVIATIONS_IN_MAD * scatter
    return Baseline(median(first), min(MOST_SPREAD, max(LEAST_SPREAD, spread)))


def judge(
    baseline: Baseline | None, seconds: float, *, before: bool | None, in_quarantine: bool
) -> Judgement:
    """Judges a measurement. `before` is whether the one before it was within, None for the first.

    One measurement decides nothing: a board goes into quarantine with the second in a row that is
    beyond, and comes back with the second in a row that is within.
    """
    within = baseline is None or baseline.holds(seconds)
    if is_doubtful(before, in_quarantine=in_quarantine) and within == before:
        return Judgement(within, not in_quarantine)
    return Judgement(within, in_quarantine)


def is_doubtful(newest: bool | None, *, in_quarantine: bool) -> bool:
    """Whether the newest measurement speaks against where the board stands, so that another one is
    wanted at once."""
    return newest is not None and newest == in_quarantine


def describe_drift(baseline: Baseline, seconds: float, state: Mapping[str, object]) -> str:
    """Why a board is in quarantine, in one line: how far it is from its own baseline, and what it
    said of itself then (`temperature_c`, `frequency_khz`, `governor`, `throttled`, `load`)."""
    share = seconds / baseline.seconds - 1
    how = f"{share:.0%} slower" if share > 0 else f"{-share:.0%} faster"
    text = (
        f"its reference kernel took {_milliseconds(seconds)}, twice in a row {how} than its own "
        f"{_milliseconds(baseline.seconds)} (give or take {baseline.spread:.0%})"
    )
    told = ", ".join(_told(state))
    return f"{text}; the board then: {told}" if told else text


def _told(state: Mapping[str, object]) -> list[str]:
    told = []
    if isinstance(celsius := state.get("temperature_c"), (int, float)):
        told.append(f"{celsius:.0f} °C")
    if isinstance(kilohertz := state.get("frequency_khz"), (int, float)):
        told.append(f"{kilohertz / 1000:.0f} MHz")
    if governor := state.get("governor"):
        told.append(f"governor {_word(governor)}")
    if isinstance(flags := state.get("throttled"), (list, tuple)) and flags:
        told.append(f"throttled: {', '.join(map(_word, flags[:_MOST_FLAGS]))}")
    if isinstance(load := state.get("load"), (int, float)):
        told.append(f"load {load:.2g}")
    return told


def _word(told: object) -> str:
    """What a board's own files say, whatever that is, as a part of one line."""
    shown = "".join(one if one.isprintable() else "?" for one in str(told).strip())
    return shown[:_LONGEST_WORD]


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"
