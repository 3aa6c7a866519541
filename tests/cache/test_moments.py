"""Moments come back as they were given, in UTC, whatever zone a database tells them in."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from tunebook.cache.queue.submissions import BudgetLimits
from tunebook.cache.store import Store

GIVEN = datetime(2999, 1, 2, 8, 30, 15, 250, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    ("database", "options"),
    [
        ("sqlite_url", ""),
        pytest.param(
            "postgresql_url", "&options=-c%20TimeZone%3DAsia/Tokyo", marks=pytest.mark.postgresql
        ),
    ],
)
def test_a_moment_comes_back_in_utc(
    request: pytest.FixtureRequest, database: str, options: str
) -> None:
    with Store.open(request.getfixturevalue(database) + options) as store:
        budget, _ = store.queue.create_budget("night", BudgetLimits(deadline=GIVEN))
        stored = store.queue.budget(budget).limits.deadline
    assert stored is not None
    assert stored == GIVEN
    assert stored.tzinfo is timezone.utc
