"""What a store knows of workloads that are seen without their model."""

from __future__ import annotations

from dataclasses import replace

from cache_samples import A53, A76, COMPILER, conv, model_of
from store_contract import StoreFixtures

from tunebook.cache.keys import WorkloadKey
from tunebook.cache.store import Store


def keys_of(*sizes: int) -> list[WorkloadKey]:
    return [conv(size).key for size in sizes]


class KnownWorkloadsContract(StoreFixtures):
    def test_a_program_that_is_stored_is_found_without_its_op(self, store: Store) -> None:
        store.save_model(model_of([conv(56), conv(28)]))
        key = conv(28).key
        assert store.find_workloads(key.hash, key.buffers, COMPILER) == (key,)

    def test_a_program_is_found_under_each_op_that_it_was_stored_under(self, store: Store) -> None:
        first = conv(28)
        second = replace(first, key=replace(first.key, op="another"))
        store.save_model(model_of([first]))
        store.save_model(model_of([second, conv(56)]))
        found = store.find_workloads(first.key.hash, first.key.buffers, COMPILER)
        assert found == (first.key, second.key)

    def test_a_program_of_another_hash_buffers_or_compiler_is_not_found(self, store: Store) -> None:
        store.save_model(model_of([conv(28)]))
        key = conv(28).key
        assert store.find_workloads("0" * 16, key.buffers, COMPILER) == ()
        assert store.find_workloads(key.hash, conv(56).key.buffers, COMPILER) == ()
        assert store.find_workloads(key.hash, key.buffers, "tvm-0.26.0+llvm-22") == ()

    def test_the_model_that_holds_most_of_them_comes_first_and_of_such_the_smallest(
        self, store: Store
    ) -> None:
        sizes = [(7,), (7, 14, 28, 56, 112), (7, 14, 28), (7, 14, 28, 56), (224,)]
        for each in sizes:
            store.save_model(model_of(map(conv, each)))
        found = store.models_holding(keys_of(7, 14, 28), A76)
        expected = [(7, 14, 28), (7, 14, 28, 56), (7, 14, 28, 56, 112), (7,)]
        assert [[key.workload for key in one.keys] for one in found] == [
            keys_of(*each) for each in expected
        ]
        assert {key.target for one in found for key in one.keys} == {A76}
        assert store.models_holding(keys_of(7, 14, 28), A76, limit=2) == found[:2]

    def test_a_model_that_holds_them_is_told_from_others(self, store: Store) -> None:
        model = model_of([conv(7)], choices="layout=NHWC")
        store.save_model(model)
        (found,) = store.models_holding(keys_of(7), A76)
        assert (found.digest, found.shapes, found.choices) == (
            model.digest,
            model.shapes,
            model.choices,
        )
        assert found.keys == model.keys

    def test_models_of_other_targets_and_unknown_workloads_are_left_out(self, store: Store) -> None:
        store.save_model(model_of([conv(7)], target=A53))
        assert store.models_holding(keys_of(7), A76) == ()
        assert store.models_holding(keys_of(14), A53) == ()
        assert store.models_holding([], A53) == ()
