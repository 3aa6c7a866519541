"""For all tests of the service: a command that sends logs to stderr does so for its test only."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tunebook.service.logs import JsonFormatter


@pytest.fixture(autouse=True)
def _logs_end_with_their_test() -> Iterator[None]:
    """A command owns its process; here its stderr is one that pytest closes after the test."""
    level = logging.root.level
    yield
    for handler in tuple(logging.root.handlers):
        if isinstance(handler.formatter, JsonFormatter):
            logging.root.removeHandler(handler)
            logging.root.setLevel(level)
