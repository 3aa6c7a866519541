"""Look-ups by model, and what tells for how long an answer holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from cache_samples import A53, A76, COMPILER, conv, model_of, serve

from tunebook.cache.errors import AmbiguousModelError, ModelNotSplitError
from tunebook.cache.lookup.answers import SplitQuestion
from tunebook.cache.records import Model
from tunebook.cache.store import Store

MODEL = model_of([conv(56), conv(28)])
AT_28 = dataclasses.replace(MODEL, shapes="input=1,64,28,28 mask=1", tasks=MODEL.tasks[1:])


@pytest.fixture(params=["sqlite_url", pytest.param("postgresql_url", marks=pytest.mark.postgresql)])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with Store.open(request.getfixturevalue(request.param)) as opened:
        yield opened


def ask(store: Store, **question: object) -> list[str]:
    """The buffers of what hit or missed."""
    asked = SplitQuestion(**{"digest": MODEL.digest, "target": A76, **question})  # type: ignore[arg-type]
    answer = store.answers.of_model(asked).answer
    return [key.buffers for key in (*answer.hits, *(miss.key for miss in answer.misses))]


def test_a_model_is_asked_for_by_its_digest_alone_where_one_split_is_stored(store: Store) -> None:
    hit = serve(store, conv(56))
    store.save_model(MODEL)
    answered = store.answers.of_model(SplitQuestion(MODEL.digest, A76))
    assert list(answered.answer.hits) == [hit]
    assert [miss.key for miss in answered.answer.misses] == [conv(28).key.on(A76)]
    assert answered.target_is_stored


@pytest.mark.parametrize(
    "question",
    [
        {"target": A53},
        {"digest": "0" * 64},
        {"compiler": "tvm-0.28.0+llvm-23"},
        {"shapes": {"input": (1, 64, 14, 14)}},
        {"shapes": {"put": (1, 64, 56, 56)}},
    ],
    ids=["target", "digest", "compiler", "shapes", "part-of-a-name"],
)
def test_a_model_that_was_never_split_so_is_no_miss(
    store: Store, question: dict[str, object]
) -> None:
    store.save_model(MODEL)
    with pytest.raises(ModelNotSplitError, match="was never split"):
        ask(store, **question)


def test_the_shapes_that_are_stored_are_named_where_others_were_asked_for(store: Store) -> None:
    store.save_model(MODEL)
    with pytest.raises(ModelNotSplitError, match="but with input=1,64,56,56; submit"):
        ask(store, shapes={"input": (1, 64, 14, 14)})


def test_a_model_of_several_shapes_is_ambiguous_without_one(store: Store) -> None:
    store.save_model(MODEL)
    store.save_model(AT_28)
    with pytest.raises(AmbiguousModelError, match=r"in 2 ways: .*input=1,64,28,28 mask=1 by"):
        ask(store)


@pytest.mark.parametrize("shapes", [{"input": (1, 64, 28, 28)}, {"mask": (1,)}])
def test_some_of_the_shapes_suffice_to_tell(
    store: Store, shapes: dict[str, tuple[int, ...]]
) -> None:
    store.save_model(MODEL)
    store.save_model(AT_28)
    assert ask(store, shapes=shapes) == [conv(28).key.buffers]


def test_a_model_of_two_compilers_is_ambiguous_without_one(store: Store) -> None:
    store.save_model(MODEL)
    store.save_model(dataclasses.replace(MODEL, compiler="tvm-0.28.0+llvm-23"))
    with pytest.raises(AmbiguousModelError):
        ask(store)
    assert len(ask(store, compiler=COMPILER)) == 2


def test_of_several_choices_the_one_that_was_stored_last_counts(store: Store) -> None:
    store.save_model(MODEL)
    store.save_model(dataclasses.replace(MODEL, choices="layout=NHWC", tasks=MODEL.tasks[:1]))
    assert ask(store) == [conv(56).key.buffers]
    (split,) = store.answers.splits(MODEL.digest, A76)
    assert split.choices == "layout=NHWC"


def test_a_split_is_told_without_its_programs(store: Store) -> None:
    told = dataclasses.replace(MODEL, target_features="0123456789abcdef")
    store.save_model(told)
    (split,) = store.answers.splits(MODEL.digest, A76, COMPILER)
    assert split == without_programs(told)


def test_an_answer_is_not_older_than_its_revision(store: Store) -> None:
    store.save_model(MODEL)
    answered = store.answers.of_keys(A76, MODEL.keys)
    assert answered.revision == store.revisions.now()
    serve(store, conv())
    assert answered.revision.schedules < store.revisions.now().schedules


def test_a_target_that_nothing_is_stored_for_is_told_apart(store: Store) -> None:
    store.save_model(MODEL)
    assert store.answers.of_keys(A76, MODEL.keys).target_is_stored
    elsewhere = [task.workload.key.on(A53) for task in MODEL.tasks]
    assert not store.answers.of_keys(A53, elsewhere).target_is_stored


def without_programs(model: Model) -> Model:
    tasks = tuple(
        dataclasses.replace(task, workload=dataclasses.replace(task.workload, tir=""))
        for task in model.tasks
    )
    return dataclasses.replace(model, tasks=tasks)
