"""Answers that are kept take no more memory than they may, and are given only while they hold."""

from __future__ import annotations

import dataclasses

import pytest

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import Miss, MissReason
from tunebook.cache.storage.revisions import Revision
from tunebook.service.api.lookups.lookup_counter import Tally
from tunebook.service.api.lookups.remembered_answers import LookupReply, RememberedAnswers

KEY = ScheduleKey("relu", "f32[1] -> f32[1]", "llvm", "tvm", "0")
MISS = Miss(KEY, MissReason.NEVER_TUNED, None, (), "never", "tunebook tune MODEL")
MADE = Revision(schedules=3, tokens=1, everything=7)
HITS = LookupReply(
    200, "application/json", b"{}" * 500, "ci", True, Tally("t", (("hit", 1),)), MADE
)
MISSES = dataclasses.replace(HITS, tally=Tally("t", (("never-tuned", 1),), (MISS,)))
AT_A_SERVER = dataclasses.replace(MISSES, revision=dataclasses.replace(MADE, everything=None))


@pytest.mark.parametrize(
    ("reply", "change", "holds"),
    [
        (HITS, {}, True),
        (HITS, {"everything": 8}, True),
        (HITS, {"everything": None}, True),
        (HITS, {"tokens": 2}, True),
        (HITS, {"schedules": 4}, False),
        (MISSES, {}, True),
        (MISSES, {"everything": 8}, False),
        (MISSES, {"schedules": 4}, False),
        (AT_A_SERVER, {"everything": None}, False),
    ],
)
def test_an_answer_holds_while_nothing_changed_that_it_tells(
    reply: LookupReply, change: dict[str, int], holds: bool
) -> None:
    kept = RememberedAnswers()
    kept.put(b"name", reply)
    now = dataclasses.replace(MADE, **change)
    assert kept.get(b"name", now) == (reply if holds else None)
    assert (kept.size > 0) == holds


def test_what_was_asked_for_longest_ago_goes_first() -> None:
    kept = RememberedAnswers(limit=3 * HITS.size)
    for name in (b"a", b"b", b"c"):
        kept.put(name, HITS)
    kept.get(b"a", MADE)
    kept.put(b"d", HITS)
    assert [name for name in (b"a", b"b", b"c", b"d") if kept.get(name, MADE)] == [b"a", b"c", b"d"]
    assert kept.size == 3 * HITS.size


def test_an_answer_larger_than_all_may_be_is_not_kept() -> None:
    kept = RememberedAnswers(limit=HITS.size - 1)
    kept.put(b"a", HITS)
    assert (kept.get(b"a", MADE), kept.size) == (None, 0)


def test_a_question_that_is_answered_anew_takes_its_place_once() -> None:
    kept = RememberedAnswers()
    kept.put(b"a", HITS)
    kept.put(b"a", HITS)
    assert kept.size == HITS.size
