"""The process that reads programs and traces from outside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tunebook.tuner.interchange.foreign_programs import ForeignPrograms


@pytest.fixture(scope="module")
def foreign() -> Iterator[ForeignPrograms]:
    with ForeignPrograms(processes=1) as programs:
        yield programs
