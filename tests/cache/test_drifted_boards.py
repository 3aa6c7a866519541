"""Boards that drift, on both databases."""

from __future__ import annotations

import pytest
from drift_contract import DriftContract


class TestSQLite(DriftContract):
    @pytest.fixture
    def url(self, sqlite_url: str) -> str:
        return sqlite_url


@pytest.mark.postgresql
class TestPostgreSQL(DriftContract):
    @pytest.fixture
    def url(self, postgresql_url: str) -> str:
        return postgresql_url
