"""Every look-up is counted once, whoever answers it, and no count is lost but by a kill."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from tunebook.cache.errors import DatabaseError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import LookupAnswer, Miss, MissReason
from tunebook.cache.statistics.lookup_counts import OTHER
from tunebook.cache.statistics.lookup_statistics import LookupBatch, LookupStatistics
from tunebook.service.api.lookups import lookup_counter
from tunebook.service.api.lookups.lookup_counter import PIPELINES, UNNAMED, LookupCounter, Tally

KEY = ScheduleKey("relu", "f32[1] -> f32[1]", "llvm", "tvm", "0")
MISS = Miss(KEY, MissReason.NEVER_TUNED, None, (), "never", "tunebook tune MODEL")
TALLY = Tally("llvm", (("hit", 2), ("never-tuned", 1)), (MISS,))


class Statistics(LookupStatistics):
    """Stands for the database, so that it can fail at will: adds up in memory what is stored."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self.fails = False
        self.known = tuple(known)
        self.counts: Counter[tuple[str, int, str, str]] = Counter()
        self.missed: Counter[str] = Counter()

    def add(self, batch: LookupBatch) -> None:
        if self.fails:
            raise DatabaseError("it is full")
        for cell, number in batch.counts.items():
            self.counts[(cell.target, cell.minute, cell.pipeline, cell.outcome)] += number
        for one in batch.missed:
            self.missed[one.pipeline] += one.count

    def pipelines(self, limit: int) -> tuple[str, ...]:
        return self.known[:limit]

    def tidy(self, minute: int) -> None:
        pass


def counted(statistics: Statistics) -> dict[str, int]:
    """Keys by outcome."""
    found: Counter[str] = Counter()
    for (_, _, _, outcome), number in statistics.counts.items():
        found[outcome] += number
    return dict(found)


def test_look_ups_of_many_threads_are_counted_exactly_while_they_are_stored() -> None:
    statistics = Statistics()
    counter = LookupCounter(statistics, flush_seconds=0.001)
    counter.start()
    threads = [
        threading.Thread(target=lambda: [counter.count("ci", TALLY) for _ in range(500)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counter.stop()
    assert counted(statistics) == {"hit": 4000, "never-tuned": 2000}
    assert statistics.missed == {"ci": 2000}


def test_a_batch_that_cannot_be_stored_is_kept_for_the_next() -> None:
    statistics = Statistics()
    counter = LookupCounter(statistics)
    counter.count("ci", TALLY)
    statistics.fails = True
    with pytest.raises(DatabaseError):
        counter.flush()
    counter.count("ci", TALLY)
    statistics.fails = False
    counter.flush()
    counter.flush()
    assert counted(statistics) == {"hit": 4, "never-tuned": 2}
    assert statistics.missed == {"ci": 2}


def test_counts_are_by_the_minute_in_which_they_were_asked() -> None:
    statistics, now = Statistics(), [120.0]
    counter = LookupCounter(statistics, clock=lambda: now[0])
    counter.count("ci", TALLY)
    now[0] = 179.9
    counter.count("ci", TALLY)
    now[0] = 180.0
    counter.count("ci", TALLY)
    counter.flush()
    assert {
        minute: number
        for (_, minute, _, outcome), number in statistics.counts.items()
        if outcome == "hit"
    } == {2: 4, 3: 2}


def test_counts_that_cannot_be_stored_for_long_are_kept_in_bounded_memory_and_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lookup_counter, "_CELLS", 10)
    statistics, now = Statistics(), [0.0]
    counter = LookupCounter(statistics, clock=lambda: now[0])
    for _ in range(100):
        counter.count("ci", TALLY)
        now[0] += 60
    counter.flush()
    assert counted(statistics) == {"hit": 200, "never-tuned": 100}
    assert len(statistics.counts) <= 10


def test_callers_without_a_name_are_counted_together() -> None:
    statistics = Statistics()
    counter = LookupCounter(statistics)
    counter.count("", TALLY)
    counter.flush()
    assert {pipeline for _, _, pipeline, _ in statistics.counts} == {UNNAMED}


@pytest.mark.parametrize(
    ("counter", "by_name"),
    [
        (lambda statistics: LookupCounter(statistics), "first"),
        (lambda statistics: LookupCounter(statistics, named=["last"]), "last"),
    ],
    ids=["first-seen", "configured"],
)
def test_so_many_pipelines_are_counted_by_name_and_the_rest_together(
    counter: Callable[[Statistics], LookupCounter], by_name: str
) -> None:
    statistics = Statistics()
    counting = counter(statistics)
    for name in ("first", *map(str, range(PIPELINES)), "last"):
        counting.count(name, TALLY)
    counting.flush()
    names = {pipeline for _, _, pipeline, _ in statistics.counts}
    assert len(names - {OTHER}) == PIPELINES
    assert {by_name, OTHER} <= names


def test_pipelines_that_were_counted_before_keep_their_names() -> None:
    statistics = Statistics(known=[f"known-{number}" for number in range(PIPELINES)])
    counter = LookupCounter(statistics)
    counter.start()
    for name in ("new", "known-7"):
        counter.count(name, TALLY)
    counter.stop()
    assert {pipeline for _, _, pipeline, _ in statistics.counts} == {OTHER, "known-7"}


def test_a_target_that_is_not_stored_is_counted_with_all_others() -> None:
    answer = LookupAnswer({}, (MISS, MISS))
    assert Tally.of(answer, "llvm", is_stored=False).target == OTHER
    tally = Tally.of(answer, "llvm", is_stored=True)
    assert (tally.target, tally.outcomes) == ("llvm", (("never-tuned", 2),))


def test_metrics_hear_of_the_names_that_are_counted() -> None:
    heard: list[tuple[str, str, str, int]] = []
    counter = LookupCounter(Statistics(), observe=lambda *told: heard.append(told))
    counter.count("", TALLY)
    assert heard == [("llvm", UNNAMED, "hit", 2), ("llvm", UNNAMED, "never-tuned", 1)]
