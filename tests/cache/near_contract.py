"""What is near a key, told by a miss and given for its recovery, whichever database is behind."""

from __future__ import annotations

import dataclasses

import pytest
from cache_samples import (
    A53,
    A76,
    COMPILER,
    TRACE,
    claim_new_round,
    conv,
    failure,
    measure,
    model_of,
    serve,
    start_job,
    success,
)
from near_cases import (
    A76_PLAIN,
    FEATURES,
    HINTS,
    NEAR_CASES,
    OP,
    TWO_DIFFERENCES,
    WANTED,
    WANTED_KEY,
    NearCase,
    by_compiler,
    made_like,
)
from store_contract import StoreFixtures

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import Miss, MissReason
from tunebook.cache.records import Candidate, Measurement, Source, Workload
from tunebook.cache.store import Store

_MIGRATE = f"tunebook migrate MODEL --target '{A76}'"
_TUNE = f"tunebook tune MODEL --target '{A76}' --more 16"
_TUNED = (MissReason.OTHER_PIPELINE, MissReason.NEVER_TUNED)


def the_miss(store: Store, **options: bool) -> Miss:
    (miss,) = store.lookup([WANTED_KEY], hints=HINTS, **options).misses
    return miss


def keep(
    store: Store,
    workload: Workload,
    module_hash: str,
    measurement: Measurement,
    *,
    source: Source = Source.SEARCH,
    target: str = A76,
) -> int:
    """Stores a record of any source; gives its id."""
    emulated = measurement.emulated
    job = start_job(store, workload, target=target, emulated=emulated)
    claimed = claim_new_round(store, job, size=1)
    candidate = Candidate(TRACE, module_hash, source)
    (slot,) = store.store_candidates(claimed.id, claimed.epoch, [candidate])
    result = store.store_result(claimed.id, claimed.epoch, slot.number, measurement)
    store.finish_round(claimed.id, claimed.epoch)
    store.finish_job(job, "done")
    return result.record_id


def hashes(store: Store, key: ScheduleKey, **options: bool) -> list[list[str]]:
    """The modules of the records that are near, entry by entry."""
    return [
        [record.candidate.module_hash for record in entry.records]
        for entry in store.near(key, **options)
    ]


class NearReasonContract(StoreFixtures):
    @pytest.mark.parametrize("case", [*NEAR_CASES, *TWO_DIFFERENCES], ids=lambda case: case.name)
    def test_a_miss_says_how_the_nearest_key_differs(self, store: Store, case: NearCase) -> None:
        serve(store, case.stored, target=case.target)
        assert the_miss(store) == Miss(
            key=WANTED_KEY,
            reason=case.reason,
            nearest=case.key,
            differences=case.differences,
            explanation=f"{OP} was tuned only {case.told}",
            mending_command=_TUNE if case.reason in _TUNED else _MIGRATE,
        )

    def test_of_all_that_is_near_the_nearest_comes_first(self, store: Store) -> None:
        for case in reversed(NEAR_CASES):
            serve(store, case.stored, target=case.target)
        assert the_miss(store).nearest == NEAR_CASES[0].key
        near = store.near(WANTED_KEY, hints=HINTS)
        told = [(entry.key, entry.reason, entry.differences) for entry in near]
        # Eight are given; of equal nearness nothing is stored here.
        assert told == [(case.key, case.reason, case.differences) for case in NEAR_CASES[:8]]

    def test_what_is_known_of_a_stored_workload_needs_no_hint(self, store: Store) -> None:
        serve(store, NEAR_CASES[2].stored)
        store.save_model(model_of([WANTED]))
        (miss,) = store.lookup([WANTED_KEY]).misses
        assert miss.reason is MissReason.OTHER_CONSTANTS

    def test_targets_that_were_split_for_are_known_to_be_equivalent(self, store: Store) -> None:
        serve(store, WANTED, target=A76_PLAIN)
        for target in (A76, A76_PLAIN):
            model = dataclasses.replace(model_of([conv(7)], target=target))
            store.save_model(dataclasses.replace(model, target_features=FEATURES))
        (miss,) = store.lookup([WANTED_KEY]).misses
        assert miss.reason is MissReason.EQUIVALENT_TARGET

    @pytest.mark.parametrize("other", ["-num-cores=2", "-opt-level=2 -num-cores=4"])
    def test_the_same_features_alone_make_no_equivalent_target(
        self, store: Store, other: str
    ) -> None:
        target = A76_PLAIN.replace("-num-cores=4", other)
        serve(store, WANTED, target=target)
        hints = dataclasses.replace(HINTS, features={A76: FEATURES, target: FEATURES})
        (miss,) = store.lookup([WANTED_KEY], hints=hints).misses
        assert miss.reason is MissReason.OTHER_TARGET

    def test_of_other_compilers_the_one_with_the_same_constants_is_nearest(
        self, store: Store
    ) -> None:
        near = by_compiler("tvm-0.9.0+llvm-14", made_like(conv(program="old")))
        serve(store, near)
        newer = by_compiler("tvm-0.26.0+llvm-21", made_like(conv(program="new"), constants="[]"))
        serve(store, newer)
        assert the_miss(store).nearest == near.key.on(A76)

    def test_of_other_compilers_alike_the_newest_is_nearest(self, store: Store) -> None:
        for version in ("0.9.0", "0.26.0", "0.10.0"):
            serve(store, by_compiler(f"tvm-{version}+llvm-14", made_like(conv(program=version))))
        nearest = the_miss(store).nearest
        assert nearest is not None and nearest.compiler == "tvm-0.26.0+llvm-14"

    def test_an_equivalent_target_is_nearer_than_other_constants(self, store: Store) -> None:
        serve(store, NEAR_CASES[2].stored)
        serve(store, WANTED, target=A76_PLAIN)
        assert the_miss(store).reason is MissReason.EQUIVALENT_TARGET

    @pytest.mark.parametrize("case", NEAR_CASES[:3], ids=lambda case: case.name)
    def test_only_failures_give_way_to_the_same_trace_elsewhere(
        self, store: Store, case: NearCase
    ) -> None:
        measure(store, WANTED, {"a": failure(), "b": failure()})
        serve(store, case.stored, target=case.target)
        miss = the_miss(store)
        assert (miss.reason, miss.nearest) == (case.reason, case.key)
        assert miss.explanation == (
            f"{OP} was tuned only {case.told}; of its own, 2 trials are stored, and all failed: "
            "2 run"
        )

    @pytest.mark.parametrize("case", NEAR_CASES[3::3], ids=lambda case: case.name)
    def test_only_failures_are_told_before_what_is_less_alike(
        self, store: Store, case: NearCase
    ) -> None:
        measure(store, WANTED, {"a": failure()})
        serve(store, case.stored, target=case.target)
        assert the_miss(store).reason is MissReason.ONLY_FAILURES

    def test_imported_records_are_told_apart_from_those_measured_here(self, store: Store) -> None:
        for number in range(2):
            keep(store, WANTED, f"m{number}", success(1e-3), source=Source.IMPORT)
        miss = the_miss(store)
        assert (miss.reason, miss.nearest) == (MissReason.UNVERIFIED, WANTED_KEY)
        assert miss.explanation == "2 records are imported, and none was measured here"
        assert miss.mending_command == _MIGRATE
        keep(store, WANTED, "measured", success(1e-3))
        miss = the_miss(store)
        assert miss.explanation == (
            "1 successful record is stored, but none was verified on a board"
        )
        assert miss.mending_command == _MIGRATE


class RecoveryContract(StoreFixtures):
    def test_its_own_records_come_first_then_other_keys(self, store: Store) -> None:
        serve(store, WANTED, target=A76_PLAIN)
        keep(store, WANTED, "imported", success(1e-6), source=Source.IMPORT)
        keep(store, WANTED, "emulated", success(1e-6, emulated=True))
        near = store.near(WANTED_KEY, hints=HINTS)
        assert [(entry.reason, entry.key) for entry in near] == [
            (MissReason.UNVERIFIED, WANTED_KEY),
            (MissReason.EMULATED_ONLY, WANTED_KEY),
            (MissReason.EQUIVALENT_TARGET, WANTED.key.on(A76_PLAIN)),
        ]
        assert hashes(store, WANTED_KEY)[:2] == [["imported"], ["emulated"]]

    def test_for_an_emulated_board_its_own_emulated_records_are_not_near(
        self, store: Store
    ) -> None:
        keep(store, WANTED, "emulated", success(1e-6, emulated=True))
        assert store.near(WANTED_KEY, emulated=True) == ()

    def test_what_was_measured_here_for_real_is_not_near_but_the_thing_itself(
        self, store: Store
    ) -> None:
        measure(store, WANTED, {"a": success(1e-3)})
        assert store.near(WANTED_KEY) == ()

    def test_failures_are_not_near(self, store: Store) -> None:
        measure(store, WANTED, {"a": failure()}, target=A53)
        assert store.near(WANTED_KEY) == ()

    def test_what_was_never_verified_is_near(self, store: Store) -> None:
        measure(store, WANTED, {"a": success(1e-3), "b": failure()}, target=A53)
        assert hashes(store, WANTED_KEY) == [["a"]]

    @pytest.mark.parametrize(
        ("emulated", "order"),
        [
            (False, ["verified", "fast", "slow", "emulated", "imported"]),
            (True, ["emulated", "verified", "fast", "slow", "imported"]),
        ],
    )
    def test_records_of_a_key_are_in_the_order_in_which_to_try_them(
        self, store: Store, emulated: bool, order: list[str]
    ) -> None:
        keep(store, WANTED, "imported", success(1e-9), source=Source.IMPORT, target=A53)
        keep(store, WANTED, "emulated", success(1e-9, emulated=True), target=A53)
        keep(store, WANTED, "slow", success(3e-3), target=A53)
        keep(store, WANTED, "fast", success(1e-3), target=A53)
        store.mark_verified(keep(store, WANTED, "verified", success(5e-3), target=A53))
        assert hashes(store, WANTED_KEY, emulated=emulated) == [order]

    def test_no_more_records_than_asked_for_are_given_of_a_key(self, store: Store) -> None:
        many = {f"m{number}": success(1e-3 * (1 + number)) for number in range(5)}
        measure(store, WANTED, many, target=A53)
        assert [len(entry.records) for entry in store.near(WANTED_KEY, limit=3)] == [3]

    def test_no_more_than_eight_keys_are_given(self, store: Store) -> None:
        for size in range(40, 56):
            serve(store, conv(size))
        near = store.near(WANTED_KEY)
        assert [entry.key for entry in near] == [
            conv(size).key.on(A76) for size in range(55, 47, -1)
        ]

    def test_a_record_is_given_as_it_is_stored(self, store: Store) -> None:
        serve(store, WANTED, target=A53)
        (entry,) = store.near(WANTED_KEY)
        assert entry.records == tuple(store.records(WANTED.key.on(A53)))

    def test_nothing_is_near_what_resembles_nothing(self, store: Store) -> None:
        serve(store, conv(op="softmax"))
        assert store.near(WANTED_KEY, hints=HINTS) == ()

    def test_a_key_that_cannot_be_read_is_near_nothing(self, store: Store) -> None:
        serve(store, WANTED)
        assert store.near(ScheduleKey("?", "f32[", "what", COMPILER, "")) == ()


class NearContract(NearReasonContract, RecoveryContract):
    """All of the above."""
