"""A hit needs the whole key: what is near is told, and never served."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from cache_samples import serve
from hypothesis import given
from hypothesis import strategies as st
from near_cases import HINTS, NEAR_CASES, WANTED, WANTED_KEY

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.storage.database import upgrade
from tunebook.cache.store import Store

_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Holds the wanted key and everything that is near it, from both kinds of boards."""
    path: Path = tmp_path_factory.mktemp("near") / "tunebook.db"
    upgrade(str(path))
    with Store.open(str(path)) as store:
        for emulated in (False, True):
            serve(store, WANTED, emulated=emulated)
            for case in NEAR_CASES:
                serve(store, case.stored, target=case.target, emulated=emulated)
        yield store


@given(
    part=st.sampled_from([field.name for field in dataclasses.fields(ScheduleKey)]),
    data=st.data(),
    accept_emulated=st.booleans(),
)
def test_a_key_with_one_part_changed_is_never_served_what_is_near(
    store: Store, part: str, data: st.DataObject, accept_emulated: bool
) -> None:
    """Whatever the part is changed to, and whatever is said to be alike."""
    text = getattr(WANTED_KEY, part)
    changed = st.one_of(
        _TEXT,
        st.just(text.upper()),
        st.builds(lambda more: text + more, _TEXT),
        st.builds(lambda end: text[:end], st.integers(0, len(text))),
        st.builds(lambda at: text[:at] + " " + text[at:], st.integers(0, len(text))),
    )
    other = dataclasses.replace(WANTED_KEY, **{part: data.draw(changed)})
    answer = store.lookup([other], accept_emulated=accept_emulated, hints=HINTS)
    assert list(answer.hits) == ([WANTED_KEY] if other == WANTED_KEY else [])
    assert [miss.nearest for miss in answer.misses if miss.nearest == other] == []
