"""Hit rates are read anew as often as that costs little."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tunebook.cache.statistics.lookup_counts import HIT, LookupCell, Window
from tunebook.cache.statistics.lookup_statistics import LookupBatch, LookupStatistics
from tunebook.cache.store import Store
from tunebook.service.dashboard.remembered_rates import RememberedRates

NOW = datetime(2026, 3, 1, 22, 0, tzinfo=timezone.utc)
TARGET = "llvm -mtriple=x86_64-linux-gnu -num-cores=1"


class Clock:
    """A monotonic clock on which each look at it takes `step` seconds."""

    def __init__(self, step: float) -> None:
        self.now = 0.0
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture
def statistics(tmp_path: Path) -> Iterator[LookupStatistics]:
    with Store.open(str(tmp_path / "tunebook.db")) as store:
        yield store.statistics


def hit(statistics: LookupStatistics) -> None:
    cell = LookupCell(TARGET, int(NOW.timestamp()) // 60, "nightly", HIT)
    statistics.add(LookupBatch({cell: 1}))


def hits(rates: RememberedRates) -> list[int]:
    return [rate.series.total.hits for rate in rates.of(Window.MONTH, NOW)]


def test_what_took_long_to_read_is_shown_for_a_while(statistics: LookupStatistics) -> None:
    clock = Clock(3)
    rates = RememberedRates(statistics, clock)
    hit(statistics)
    assert hits(rates) == [1]
    hit(statistics)
    assert hits(rates) == [1]
    clock.now += 60
    assert hits(rates) == [2]


def test_what_takes_no_time_to_read_is_always_new(statistics: LookupStatistics) -> None:
    rates = RememberedRates(statistics, Clock(0))
    for expected in (1, 2, 3):
        hit(statistics)
        assert hits(rates) == [expected]


def test_each_window_is_remembered_by_itself(statistics: LookupStatistics) -> None:
    rates = RememberedRates(statistics, Clock(3))
    hit(statistics)
    assert hits(rates) == [1]
    hit(statistics)
    assert [rate.series.total.hits for rate in rates.of(Window.DAY, NOW)] == [2]


def test_nobody_waits_for_another_to_read(statistics: LookupStatistics) -> None:
    clock = Clock(0)
    reading, may_go_on = threading.Event(), threading.Event()

    def slow_clock() -> float:
        if threading.current_thread() is reader:
            reading.set()
            assert may_go_on.wait(30)
        return clock()

    rates = RememberedRates(statistics, slow_clock)
    reader = threading.Thread(target=lambda: hits(rates))
    hit(statistics)
    assert hits(rates) == [1]
    hit(statistics)
    reader.start()
    assert reading.wait(30)
    assert hits(rates) == [1]
    may_go_on.set()
    reader.join(30)
    assert hits(rates) == [2]
