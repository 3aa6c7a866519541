"""Which tasks were probably not asked for, where nobody says which model is compiled."""

from __future__ import annotations

import pytest

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import StoredModel
from tunebook.tuner.inside_tvm.unasked_tasks import likely_unasked


def key(name: str) -> ScheduleKey:
    return ScheduleKey(name, "f32[1] -> f32[1]", "llvm", "tvm", f"{ord(name):016x}")


def stored(names: str) -> StoredModel:
    """A model whose tasks are the letters of its name."""
    return StoredModel(names, "x=1", "", tuple(map(key, names)))


@pytest.mark.parametrize(
    ("asked", "models", "model", "unasked"),
    [
        ("", ["abc"], None, ""),
        ("xy", [], None, ""),
        ("abc", ["abc"], None, ""),
        ("abc", ["abc", "abcd"], None, ""),
        ("abcde", ["abc", "de"], None, ""),
        ("abx", ["abcd"], "abcd", "cd"),
        ("abx", ["abcd", "ab"], None, ""),
        ("abcx", ["abcd", "a"], "abcd", "d"),
        ("ab", ["abc", "abd"], "abc", "c"),
        ("abc", ["abd", "abce", "ce"], "abce", "e"),
        ("a", ["bcd"], None, ""),
    ],
    ids=[
        "nothing asked",
        "nothing stored",
        "a whole model",
        "a whole model that is part of another",
        "two whole models",
        "a part of one",
        "what a smaller model explains",
        "what a smaller model explains in part",
        "of two that hold as much the first",
        "the one that holds most",
        "one that holds none",
    ],
)
def test_the_model_that_holds_most_of_what_no_whole_model_explains_is_meant(
    asked: str, models: list[str], model: str | None, unasked: str
) -> None:
    found = likely_unasked([stored(names) for names in models], list(map(key, asked)))
    assert (found.digest if found else None) == model
    if found is not None:
        assert found.keys == tuple(map(key, unasked))
        assert found.total == len(found.digest)


def test_programs_that_were_asked_for_in_another_form_tell_which_model_is_meant() -> None:
    models = [stored("abc"), stored("de")]
    found = likely_unasked(models, [key("x"), key("y")], [key("d"), key("e")])
    assert found is not None
    assert (found.digest, found.keys) == ("de", (key("d"), key("e")))
