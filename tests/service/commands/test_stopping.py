"""Commands that run until they are stopped end in order, whoever stops them."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tunebook.service.commands.stopping import stop_when_told


@pytest.fixture(autouse=True)
def _nothing_is_ignored() -> Iterator[None]:
    """Whoever runs the tests in the background may have them ignore some."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.signal(number, signal.SIG_DFL) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_service_manager_keyboard_and_the_end_of_a_terminal_stop_it(number: signal.Signals) -> None:
    with stop_when_told() as stop:
        assert not stop.is_set()
        signal.raise_signal(number)
        assert stop.is_set()


def test_what_is_ignored_stays_so() -> None:
    """As nohup has it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_when_told() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop.is_set()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
