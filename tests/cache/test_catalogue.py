"""Lists of what is stored, a page at a time, on both databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cache_samples import A53, A76, BOARD, TRACE, conv, failure, measure, serve, success

from tunebook.cache.errors import NotFoundError
from tunebook.cache.lists.catalogue import ListedSchedule, RecordFilter, ScheduleFilter
from tunebook.cache.records import ErrorClass, Source
from tunebook.cache.store import BoardPeak, Store
from tunebook.cache.stored.imported_records import ImportedRecord

ALL = RecordFilter()
CONV, OTHER = conv(56), conv(28, op="conv2d")
FILTERED = [
    (ALL, "imported wrong broken slow fast"),
    (RecordFilter(key=CONV.key.on(A76)), "slow fast"),
    (RecordFilter(key=conv(7).key.on(A76)), ""),
    (RecordFilter(target=A53), "imported broken"),
    (RecordFilter(target="llvm of nobody"), ""),
    (RecordFilter(op="conv2d"), "imported wrong"),
    (RecordFilter(error=ErrorClass.BUILD), "broken"),
    (RecordFilter(failed=True), "wrong broken"),
    (RecordFilter(failed=False), "imported slow fast"),
    (RecordFilter(verified=True), "fast"),
    (RecordFilter(verified=False), "imported wrong broken slow"),
    (RecordFilter(source=Source.IMPORT), "imported"),
    (RecordFilter(source=Source.SEARCH), "wrong broken slow fast"),
    (RecordFilter(op="conv2d", target=A76, failed=True), "wrong"),
    (RecordFilter(target=A76, verified=True), "fast"),
]
SERVED = [
    (ScheduleFilter(), 5),
    (ScheduleFilter(target=A53), 2),
    (ScheduleFilter(op="conv2d"), 1),
    (ScheduleFilter(key=CONV.key.on(A76)), 2),
    (ScheduleFilter(key=conv(5).key.on(A76)), 0),
    (ScheduleFilter(emulated=True), 1),
    (ScheduleFilter(emulated=False, target=A76), 2),
    (ScheduleFilter(target="llvm of nobody"), 0),
]


def fill(store: Store) -> dict[str, int]:
    """Records of two workloads on two targets, each by a name."""
    ids = measure(store, CONV, {"fast": success(1e-3), "slow": success(2e-3)})
    ids |= measure(store, CONV, {"broken": failure(ErrorClass.BUILD)}, target=A53)
    ids |= measure(store, OTHER, {"wrong": failure(ErrorClass.WRONG_OUTPUT)})
    store.mark_verified(ids["fast"])
    imported = ImportedRecord(OTHER.key.on(A53), TRACE, (3e-3,), "elsewhere")
    store.interchange.import_records([imported])
    (record,) = store.records(imported.key)
    return ids | {"imported": record.id}


def pages_of_schedules(
    store: Store, wanted: ScheduleFilter, limit: int
) -> tuple[ListedSchedule, ...]:
    paged: list[ListedSchedule] = []
    while page := store.catalogue.schedules(
        wanted, after=paged[-1].position if paged else None, limit=limit
    ):
        assert len(page) <= limit
        paged += page
    return tuple(paged)


class CatalogueContract:
    @pytest.fixture
    def store(self, url: str) -> Iterator[Store]:
        with Store.open(url) as store:
            yield store

    def test_a_filter_leaves_what_it_names_the_newest_first(self, store: Store) -> None:
        names = {number: name for name, number in fill(store).items()}
        for wanted, expected in FILTERED:
            found = [names[one.id] for one in store.catalogue.records(wanted)]
            assert found == expected.split(), wanted

    @pytest.mark.parametrize("wanted", [ALL, RecordFilter(op=CONV.key.op)])
    def test_pages_show_each_record_once_while_others_are_stored(
        self, store: Store, wanted: RecordFilter
    ) -> None:
        ids = measure(store, CONV, {f"m{n}": success(1e-3 + n) for n in range(7)})
        seen: list[int] = []
        before = None
        while page := store.catalogue.records(wanted, before=before, limit=3):
            seen += [record.id for record in page]
            before = seen[-1]
            measure(store, CONV, {f"later{len(seen)}": success(1.0)})
        assert seen == sorted(ids.values(), reverse=True)

    def test_a_record_tells_its_trace_its_board_and_where_it_came_from(self, store: Store) -> None:
        ids = fill(store)
        adopted = store.adopt_record(ids["fast"], CONV.key.on(A53), "record 1, unchanged")
        fast, copy = store.catalogue.record(ids["fast"]), store.catalogue.record(adopted)
        assert (fast.trace, fast.served, fast.origin) == (TRACE, True, "")
        assert (copy.trace, copy.served, copy.origin) == (TRACE, False, "record 1, unchanged")
        assert fast.listed.board_class == BOARD
        assert fast.listed.created_at.utcoffset() is not None
        broken = store.catalogue.record(ids["broken"])
        assert (broken.listed.error, broken.error_text) == (ErrorClass.BUILD, "it was build")

    def test_what_is_not_stored_is_not_found(self, store: Store) -> None:
        with pytest.raises(NotFoundError, match="there is no record 7"):
            store.catalogue.record(7)
        serve(store, CONV)
        with pytest.raises(NotFoundError, match="there is no target 7"):
            store.catalogue.target(7)

    def test_pages_of_schedules_show_each_once_in_one_order(self, store: Store) -> None:
        for target in (A76, A53):
            serve(store, CONV, target=target)
        serve(store, CONV, emulated=True, seconds=2e-3)
        serve(store, conv(28))
        serve(store, OTHER, target=A53)
        for wanted, count in SERVED:
            whole = store.catalogue.schedules(wanted)
            assert len(whole) == count, wanted
            for limit in (1, 2):
                assert pages_of_schedules(store, wanted, limit) == whole

    def test_targets_say_how_much_is_stored_for_them(self, store: Store) -> None:
        for size in (56, 28):
            serve(store, conv(size))
        serve(store, conv(56), target=A53, emulated=True)
        first, second = store.catalogue.targets()
        counts = [(t.text, t.models, t.schedules, t.emulated_schedules) for t in (first, second)]
        assert counts == [(A76, 2, 2, 0), (A53, 1, 0, 1)]
        assert store.catalogue.targets(after=first.id, limit=1) == (second,)
        assert store.catalogue.target(second.id) == second

    def test_peaks_are_listed_by_class_and_target(self, store: Store) -> None:
        for board_class, target in (("rpi5", A76), ("rpi4", A76), ("rpi4", A53)):
            store.save_board_peak(board_class, target, BoardPeak(1e9, 2e9))
        listed = [(one.board_class, one.target) for one in store.catalogue.board_peaks()]
        assert listed == [("rpi4", A53), ("rpi4", A76), ("rpi5", A76)]


class TestSQLite(CatalogueContract):
    @pytest.fixture
    def url(self, sqlite_url: str) -> str:
        return sqlite_url


@pytest.mark.postgresql
class TestPostgreSQL(CatalogueContract):
    @pytest.fixture
    def url(self, postgresql_url: str) -> str:
        return postgresql_url
