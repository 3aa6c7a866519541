"""The store's contract, kept by both databases."""

from __future__ import annotations

import pytest
from lease_contract import LeaseContract, ProcessContract
from miss_contract import MissContract
from round_contract import RoundContract
from store_contract import StoreContract


class TestSQLite(StoreContract, MissContract, RoundContract, LeaseContract, ProcessContract):
    @pytest.fixture
    def url(self, sqlite_url: str) -> str:
        return sqlite_url


@pytest.mark.postgresql
class TestPostgreSQL(StoreContract, MissContract, RoundContract, LeaseContract, ProcessContract):
    @pytest.fixture
    def url(self, postgresql_url: str) -> str:
        return postgresql_url
