"""What a miss says, whichever database is behind the store."""

from __future__ import annotations

import dataclasses

import pytest
from cache_samples import A53, A76, A76_PLAIN, conv, failure, measure, serve, success
from store_contract import StoreFixtures

from tunebook.cache.misses import Difference, Miss, MissReason, ScheduleMissError
from tunebook.cache.records import ErrorClass
from tunebook.cache.store import Store


def the_miss(store: Store, workload, target: str = A76, **options: bool) -> Miss:  # type: ignore[no-untyped-def]
    (miss,) = store.lookup([workload.key.on(target)], **options).misses
    return miss


class MissContract(StoreFixtures):
    def test_nothing_of_the_kind_was_ever_tuned(self, store: Store) -> None:
        serve(store, conv(op="dense"))
        miss = the_miss(store, conv(op="softmax"))
        assert (miss.reason, miss.nearest) == (MissReason.NEVER_TUNED, None)
        assert miss.explanation == (
            "no softmax of this shape or another was ever tuned with this compiler"
        )
        assert miss.mending_command == f"tunebook tune MODEL --target '{A76}' --more 16"

    def test_another_target_is_named_with_the_attributes_that_differ(self, store: Store) -> None:
        other = serve(store, conv(), target=A53)
        miss = the_miss(store, conv())
        assert (miss.reason, miss.nearest) == (MissReason.OTHER_TARGET, other)
        assert miss.differences == (
            Difference("target.mcpu", "cortex-a76", "cortex-a53"),
            Difference("target.mattr", ["+dotprod", "+neon"], ["+neon"]),
        )
        assert f"use --target '{A53}'" in miss.explanation
        assert miss.mending_command == f"tunebook migrate MODEL --target '{A76}'"

    def test_the_nearest_target_is_the_one_with_the_fewest_attributes_apart(
        self, store: Store
    ) -> None:
        serve(store, conv(), target=A53)
        near = serve(store, conv(), target=A76.replace("num-cores=4", "num-cores=2"))
        serve(store, conv(), target=A76_PLAIN)
        assert the_miss(store, conv()).nearest == near

    def test_another_shape_is_named_with_the_axes_that_differ(self, store: Store) -> None:
        serve(store, conv(14))
        near = serve(store, conv(55))
        serve(store, conv(112))
        miss = the_miss(store, conv(56))
        assert (miss.reason, miss.nearest) == (MissReason.OTHER_SHAPE, near)
        assert [difference.field for difference in miss.differences] == [
            "buffers[0][2]",
            "buffers[0][3]",
            "buffers[2][2]",
            "buffers[2][3]",
        ]
        assert miss.differences[0] == Difference("buffers[0][2]", 56, 55)

    def test_another_shape_on_the_wanted_target_is_nearer_than_one_elsewhere(
        self, store: Store
    ) -> None:
        here = serve(store, conv(14))
        serve(store, conv(55), target=A53)
        assert the_miss(store, conv(56)).nearest == here

    def test_another_dtype_is_named(self, store: Store) -> None:
        near = serve(store, conv(dtype="f16"))
        miss = the_miss(store, conv(dtype="f32"))
        assert (miss.reason, miss.nearest) == (MissReason.OTHER_DTYPE, near)
        assert miss.differences[0] == Difference("buffers[0].dtype", "f32", "f16")

    def test_another_program_of_the_same_buffers_is_the_nearest(self, store: Store) -> None:
        serve(store, conv(55))
        near = serve(store, conv(56, program="stride 2"))
        miss = the_miss(store, conv(56))
        assert (miss.reason, miss.nearest) == (MissReason.OTHER_ATTRIBUTES, near)
        assert [difference.field for difference in miss.differences] == ["workload_hash"]

    def test_another_compiler_is_named(self, store: Store) -> None:
        key = serve(store, conv())
        wanted = dataclasses.replace(key, compiler="tvm-0.28.0+llvm-23", workload_hash="0" * 16)
        (miss,) = store.lookup([wanted]).misses
        assert miss.nearest == key
        assert miss.differences == (
            Difference("compiler", "tvm-0.28.0+llvm-23", "tvm-0.27.0+llvm-22"),
        )

    def test_only_failures_are_told_by_class_with_counts(self, store: Store) -> None:
        serve(store, conv(), target=A53)
        crashes = {f"crash {number}": failure(ErrorClass.RUN) for number in range(3)}
        measure(store, conv(), {**crashes, "late": failure(ErrorClass.COMPILE_TIMEOUT)})
        miss = the_miss(store, conv())
        assert miss.reason is MissReason.ONLY_FAILURES
        assert miss.explanation == ("4 trials are stored, and all failed: 3 run, 1 compile-timeout")
        assert miss.mending_command == f"tunebook tune MODEL --target '{A76}' --more 16"

    def test_a_record_that_nobody_verified_is_unverified(self, store: Store) -> None:
        measure(store, conv(), {"a": success(1e-3), "b": failure()})
        miss = the_miss(store, conv())
        assert (miss.reason, miss.nearest) == (MissReason.UNVERIFIED, conv().key.on(A76))
        assert miss.explanation == (
            "1 successful record is stored, but none was verified on a board"
        )
        assert miss.mending_command == f"tunebook migrate MODEL --target '{A76}'"

    def test_only_emulated_timings_are_told_with_the_option_that_accepts_them(
        self, store: Store
    ) -> None:
        serve(store, conv(), emulated=True)
        miss = the_miss(store, conv())
        assert miss.reason is MissReason.EMULATED_ONLY
        assert miss.explanation == (
            "1 successful record is stored, all of them from an emulated board, whose timings say "
            "nothing about a real one; measure them on a real board, or accept them by name with "
            "--accept-emulated"
        )
        assert miss.mending_command == f"tunebook migrate MODEL --target '{A76}'"

    def test_emulated_timings_that_are_accepted_may_still_be_unverified(self, store: Store) -> None:
        emulated = success(1e-3, emulated=True)
        measure(store, conv(), {"a": emulated}, emulated=True)
        miss = the_miss(store, conv(), accept_emulated=True)
        assert miss.reason is MissReason.UNVERIFIED

    def test_an_emulated_schedule_elsewhere_is_near_only_where_it_is_accepted(
        self, store: Store
    ) -> None:
        serve(store, conv(), target=A53, emulated=True)
        assert the_miss(store, conv()).reason is MissReason.NEVER_TUNED
        miss = the_miss(store, conv(), accept_emulated=True)
        assert miss.reason is MissReason.OTHER_TARGET

    @pytest.mark.parametrize("text", ["", "f32[", "?", "f32[1,-] -> f32[a]"])
    def test_buffers_that_cannot_be_read_are_a_miss_like_any_other(
        self, store: Store, text: str
    ) -> None:
        serve(store, conv())
        wanted = dataclasses.replace(conv().key, buffers=text).on(A76)
        (miss,) = store.lookup([wanted]).misses
        assert miss.reason is MissReason.NEVER_TUNED

    def test_the_error_tells_each_cause_once_with_its_count(self, store: Store) -> None:
        for size in (7, 14, 28):
            serve(store, conv(size), target=A76_PLAIN)
        wanted = [conv(size) for size in (7, 14, 28)] + [conv(op="softmax")]
        misses = store.lookup([workload.key.on(A76) for workload in wanted]).misses
        error = ScheduleMissError(misses)
        assert error.misses == misses
        assert str(error) == (
            "4 schedules are missing: 3 other-target "
            "(target.mattr: wanted +dotprod,+neon, stored none); 1 never-tuned; "
            f"mend with: tunebook migrate MODEL --target '{A76}'; "
            f"then: tunebook tune MODEL --target '{A76}' --more 16"
        )
