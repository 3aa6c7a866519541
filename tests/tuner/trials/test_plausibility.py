"""A time beyond the board's peak is not believed, and a good schedule's always is."""

from __future__ import annotations

import pytest

from tunebook.cache.keys import WorkloadKey
from tunebook.cache.work import BoardPeak
from tunebook.tuner.splitting.program import BufferSpec, Program
from tunebook.tuner.trials.plausibility import plausible_seconds, why_implausible

PEAK = BoardPeak(flops_per_second=1e9, bytes_per_second=1e9)


def program(dtype: str, flops: float, written: int = 1, read: int = 1) -> Program:
    buffers = (BufferSpec(dtype, (read,), False), BufferSpec(dtype, (written,), True))
    return Program(WorkloadKey("", "", "", ""), "", buffers, flops, 1)


@pytest.mark.parametrize(
    ("flops", "moved", "seconds"),
    [(1e9, 0, 0.5), (0, 1e9, 0.5), (1e9, 2e9, 1.0), (0, 0, 0)],
)
def test_half_of_what_the_peak_allows_is_believed(flops, moved, seconds) -> None:
    assert plausible_seconds(flops, moved, PEAK) == seconds


@pytest.mark.parametrize(
    ("dtype", "flops", "seconds", "believed"),
    [
        pytest.param("float32", 1e9, 1.0, True, id="at the peak"),
        pytest.param("float32", 1e9, 0.4, False, id="beyond it"),
        pytest.param("float16", 1e9, 0.4, True, id="two halves in a lane"),
        pytest.param("int8", 1e9, 0.1, True, id="dot products of bytes"),
        pytest.param("int8", 1e9, 0.01, False, id="beyond those"),
        pytest.param("float32", 0, 1e-6, True, id="no arithmetic"),
    ],
)
def test_arithmetic_takes_its_time(dtype, flops, seconds, believed) -> None:
    text = why_implausible(program(dtype, flops), [seconds], PEAK)
    assert (text is None) is believed
    if text is not None:
        assert "peak" in text


def test_what_is_written_takes_its_time() -> None:
    assert why_implausible(program("int8", 0, written=10**9), [0.1], PEAK) is not None


def test_what_could_be_read_need_not_be() -> None:
    assert why_implausible(program("int8", 0, read=10**9), [1e-6], PEAK) is None


def test_the_median_counts() -> None:
    assert why_implausible(program("float32", 1e9), [0.1, 1.0, 1.1], PEAK) is None


@pytest.mark.parametrize("peak", [None, PEAK])
def test_no_kernel_takes_no_time(peak: BoardPeak | None) -> None:
    text = why_implausible(program("float32", 0), [1e-6, 0.0, 1e-6], peak)
    assert text is not None
    assert "clock" in text


def test_without_a_peak_every_time_is_believed() -> None:
    assert why_implausible(program("float32", 1e15), [1e-9], None) is None
