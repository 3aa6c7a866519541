"""Look-ups are counted exactly, and read by windows, pipelines and causes."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import pytest
from cache_samples import A53, A76, conv, model_of, serve

from tunebook.cache.errors import DatabaseError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import Difference, Miss, MissReason
from tunebook.cache.statistics import missed_keys
from tunebook.cache.statistics.lookup_counts import HIT, OTHER, HitRate, LookupCell, Window
from tunebook.cache.statistics.lookup_statistics import LookupBatch
from tunebook.cache.statistics.missed_keys import MissedKey, MissedKeyFilter
from tunebook.cache.store import Store

NOW = datetime(2026, 5, 4, 10, 17, 30, tzinfo=timezone.utc)
MINUTE = int(NOW.timestamp()) // 60


@pytest.fixture(params=["sqlite_url", pytest.param("postgresql_url", marks=pytest.mark.postgresql)])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with Store.open(request.getfixturevalue(request.param)) as opened:
        yield opened


def add(
    store: Store,
    number: int,
    *,
    ago: int = 0,
    target: str = A76,
    pipeline: str = "ci",
    outcome: str = HIT,
) -> None:
    cell = LookupCell(target, MINUTE - ago, pipeline, outcome)
    store.statistics.add(LookupBatch({cell: number}))


def missed(
    key: ScheduleKey,
    *,
    pipeline: str = "ci",
    ago: int = 0,
    count: int = 1,
    reason: MissReason = MissReason.OTHER_SHAPE,
    differences: tuple[Difference, ...] = (Difference("buffers[0][2]", 28, 56),),
    command: str = "tunebook migrate MODEL",
) -> MissedKey:
    moment = NOW - timedelta(minutes=ago)
    miss = Miss(key, reason, conv(56).key.on(A76), differences, "it is another shape", command)
    return MissedKey(miss, pipeline, count, moment, moment)


def rates(store: Store, window: Window) -> dict[str, HitRate]:
    return {one.target: one for one in store.statistics.hit_rates(window, NOW)}


def test_counts_of_one_minute_add_up(store: Store) -> None:
    add(store, 3)
    add(store, 4)
    add(store, 2, outcome="never-tuned")
    total = store.statistics.hit_rate(A76, Window.DAY, NOW).series.total
    assert (total.hits, total.misses, dict(total.reasons)) == (7, 2, {"never-tuned": 2})
    assert total.rate == pytest.approx(7 / 9)


def test_batches_of_several_coordinators_at_once_add_up(store: Store) -> None:
    cells = [LookupCell(A76, MINUTE, f"ci-{number}", HIT) for number in range(8)]

    def count(order: int) -> None:
        for _ in range(10):
            store.statistics.add(LookupBatch(dict.fromkeys(cells[::order], 1)))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(count, [1, -1, 1, -1]))
    found = store.statistics.hit_rate(A76, Window.NOW, NOW)
    assert {one.pipeline: one.total.hits for one in found.pipelines} == {
        cell.pipeline: 40 for cell in cells
    }


@pytest.mark.parametrize(
    ("window", "minutes"),
    [
        (Window.NOW, 60),
        (Window.DAY, 24 * 60),
        (Window.WEEK, 7 * 24 * 60),
        (Window.MONTH, 30 * 24 * 60),
    ],
)
def test_a_window_ends_with_the_bucket_that_is_now(
    store: Store, window: Window, minutes: int
) -> None:
    start = (MINUTE // window.bucket_minutes + 1) * window.bucket_minutes - minutes
    add(store, 1, ago=0)
    add(store, 10, ago=MINUTE - start)
    add(store, 100, ago=MINUTE - start + 1)
    found = store.statistics.hit_rate(A76, window, NOW)
    assert found.start == datetime.fromtimestamp(start * 60, timezone.utc)
    assert [one.hits for one in found.series.buckets] == [10, *[0] * (window.buckets - 2), 1]
    assert found.series.total.hits == 11


def test_the_lowest_rate_comes_first_and_of_these_the_most_misses(store: Store) -> None:
    add(store, 9, pipeline="good")
    add(store, 1, pipeline="fair")
    add(store, 1, pipeline="fair", outcome="unverified")
    add(store, 2, pipeline="poor", outcome="unverified")
    add(store, 5, pipeline="worst", outcome="unverified")
    add(store, 1, target=A53, outcome="never-tuned")
    add(store, 1, target=OTHER)
    found = store.statistics.hit_rates(Window.DAY, NOW)
    assert [one.target for one in found] == [A53, A76, OTHER]
    assert [one.pipeline for one in found[1].pipelines] == ["worst", "poor", "fair", "good"]


def test_one_pipeline_can_be_asked_for(store: Store) -> None:
    add(store, 9, pipeline="good")
    add(store, 2, pipeline="poor", outcome="unverified")
    found = store.statistics.hit_rate(A76, Window.DAY, NOW, "poor")
    assert (found.series.total.hits, found.series.total.misses) == (0, 2)


def test_what_was_not_looked_up_has_no_rate(store: Store) -> None:
    found = store.statistics.hit_rate(A76, Window.WEEK, NOW)
    assert found.series.total.rate is None
    assert [one.rate for one in found.series.buckets] == [None] * Window.WEEK.buckets


def test_pipelines_are_known_again_those_that_came_last_first(store: Store) -> None:
    for ago, name in enumerate(("new", "old", "older")):
        add(store, 1, pipeline=name, ago=ago)
    add(store, 1, pipeline=OTHER)
    assert store.statistics.pipelines(2) == ("new", "old")


def test_counts_that_no_window_shows_are_forgotten(store: Store) -> None:
    add(store, 1, ago=36 * 24 * 60, pipeline="old")
    add(store, 1, ago=30 * 24 * 60, pipeline="new")
    store.statistics.tidy(MINUTE)
    assert store.statistics.pipelines(5) == ("new",)


@pytest.mark.parametrize("window", list(Window))
def test_counts_kept_by_the_hour_give_every_window_the_same(store: Store, window: Window) -> None:
    for ago in (*range(0, 180, 7), *range(2_800, 3_100, 11), 9_001, 9_002, 30_000):
        add(store, 1 + ago, ago=ago, outcome=HIT if ago % 3 else "unverified")
    before = store.statistics.hit_rate(A76, window, NOW)
    for _ in range(2):
        store.statistics.tidy(MINUTE)
        assert store.statistics.hit_rate(A76, window, NOW) == before


def test_counts_of_more_than_two_days_ago_are_kept_by_the_hour(sqlite_url: str) -> None:
    hour = MINUTE - MINUTE % 60 - 72 * 60
    with Store.open(sqlite_url) as on_file:
        for minute in range(hour, hour + 60):
            add(on_file, 1, ago=MINUTE - minute)
        on_file.statistics.tidy(MINUTE)
        with sqlite3.connect(sqlite_url) as connection:
            rows = connection.execute("SELECT minute, count FROM lookup_counts").fetchall()
    assert rows == [(hour, 60)]


def test_a_key_that_is_missed_again_is_told_once_as_it_was_explained_last(store: Store) -> None:
    key = conv(28).key.on(A76)
    before = missed(key, ago=5, reason=MissReason.NEVER_TUNED)
    store.statistics.add(LookupBatch(missed=[before]))
    store.statistics.add(LookupBatch(missed=[missed(key, count=2)]))
    (found,) = store.statistics.missed_keys(MissedKeyFilter(), 10)
    assert found == dataclasses.replace(missed(key), count=3, first_at=before.first_at)


def test_misses_are_grouped_by_cause_the_newest_cause_first(store: Store) -> None:
    shapes = [missed(conv(size).key.on(A76), ago=size) for size in (7, 14)]
    elsewhere = missed(conv(28).key.on(A53), ago=1, reason=MissReason.NEVER_TUNED)
    store.statistics.add(LookupBatch(missed=[*shapes, elsewhere]))
    first, second = store.statistics.missed_groups(MissedKeyFilter())
    assert (first.group.reason, first.count) == (MissReason.NEVER_TUNED, 1)
    assert first.last_at == elsewhere.last_at
    assert second.group.cause == "other-shape (axis 2: wanted 28, stored 56)"
    assert second.keys == tuple(shapes)


def test_misses_of_several_look_ups_are_mended_by_one_command(store: Store) -> None:
    found = [
        missed(conv(size).key.on(A76), command=f"tunebook tune MODEL --more {trials}")
        for size, trials in ((7, 16), (14, 320))
    ]
    store.statistics.add(LookupBatch(missed=found))
    (group,) = store.statistics.missed_groups(MissedKeyFilter())
    assert group.group.mending_command == "tunebook tune MODEL --more 32"


def test_a_key_that_two_pipelines_missed_counts_for_both_in_one_group(store: Store) -> None:
    key = conv(28).key.on(A76)
    store.statistics.add(
        LookupBatch(missed=[missed(key, pipeline="ci", ago=1), missed(key, pipeline="nightly")])
    )
    (group,) = store.statistics.missed_groups(MissedKeyFilter())
    assert len(group.group.misses) == 1
    assert [one.pipeline for one in group.keys] == ["nightly", "ci"]


def test_a_miss_that_was_mended_is_told_only_where_asked_for(store: Store) -> None:
    mended, open_one = serve(store, conv(28)), conv(14).key.on(A76)
    store.statistics.add(LookupBatch(missed=[missed(mended), missed(open_one)]))
    (group,) = store.statistics.missed_groups(MissedKeyFilter())
    assert [one.miss.key for one in group.keys] == [open_one]
    found = store.statistics.missed_keys(MissedKeyFilter(mended=True), 10)
    assert {one.miss.key: one.mended for one in found} == {mended: True, open_one: False}


@pytest.mark.parametrize(
    "wanted",
    [
        MissedKeyFilter(target=A53),
        MissedKeyFilter(pipeline="nightly"),
        MissedKeyFilter(reason="never-tuned"),
        MissedKeyFilter(since=NOW - timedelta(minutes=2)),
    ],
)
def test_misses_are_found_by_what_they_have(store: Store, wanted: MissedKeyFilter) -> None:
    other = missed(conv(14).key.on(A76), ago=10)
    one = missed(conv(28).key.on(A53), pipeline="nightly", reason=MissReason.NEVER_TUNED, ago=1)
    store.statistics.add(LookupBatch(missed=[one, other]))
    assert store.statistics.missed_keys(wanted, 10) == (one,)


def test_of_very_many_misses_the_newest_are_kept(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missed_keys, "KEPT", 3)
    for number in range(6):
        one = missed(conv(7 + number).key.on(A76), ago=10 - number)
        store.statistics.add(LookupBatch(missed=[one]))
    kept = store.statistics.missed_keys(MissedKeyFilter(), 10)
    assert [one.miss.key for one in kept] == [conv(size).key.on(A76) for size in (12, 11, 10)]


def test_a_batch_is_added_whole_or_not_at_all(store: Store) -> None:
    broken = dataclasses.replace(missed(conv().key.on(A76)), count=None)  # type: ignore[arg-type]
    cell = LookupCell(A76, MINUTE, "ci", HIT)
    with pytest.raises(DatabaseError, match=r"(?i)null"):
        store.statistics.add(LookupBatch({cell: 1}, [broken]))
    assert store.statistics.hit_rate(A76, Window.NOW, NOW).series.total.hits == 0


def test_coverage_is_what_builds_of_the_stored_models_would_find(store: Store) -> None:
    serve(store, conv(56))
    serve(store, conv(28), emulated=True)
    store.save_model(model_of([conv(56), conv(28), conv(14)]))
    older = dataclasses.replace(model_of([conv(7)], target=A53), compiler="tvm-0.26.0+llvm-21")
    store.save_model(older)
    store.save_model(model_of([conv(7)], target=A53))
    found = store.statistics.coverage()
    assert (found[A76].keys, found[A76].served) == (3, 1)
    assert (found[A53].keys, found[A53].served) == (1, 0)
