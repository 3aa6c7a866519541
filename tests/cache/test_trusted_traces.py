"""What a trace was found to be is remembered for its text, and for nothing else."""

from __future__ import annotations

import pytest
from cache_samples import EVIL_TRACE, TRACE

from tunebook.cache.untrusted import trusted_traces
from tunebook.cache.untrusted.trusted_traces import is_trusted, refusal


@pytest.fixture(autouse=True)
def nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trusted_traces, "_passed", set())


def test_a_trace_that_passed_is_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []
    check = trusted_traces.check_trace
    monkeypatch.setattr(
        trusted_traces, "check_trace", lambda trace: (checked.append(trace), check(trace))
    )
    assert [is_trusted(TRACE) for _ in range(3)] == [True] * 3
    assert checked == [TRACE]


@pytest.mark.parametrize("trace", [EVIL_TRACE, TRACE + " ]", "", "\ud800", b"bytes", None, 7])
def test_a_trace_is_refused_every_time_whatever_passed_before(trace: object) -> None:
    assert is_trusted(TRACE)
    for _ in range(2):
        assert str(refusal(trace)).startswith("the trace is refused")
        assert not is_trusted(trace)


def test_so_many_traces_are_remembered_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trusted_traces, "_REMEMBERED", 3)
    for number in range(10):
        assert is_trusted(TRACE + " " * number)
        assert len(trusted_traces._passed) <= 3
