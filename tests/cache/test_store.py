"""The store's contract, kept by both databases."""

from __future__ import annotations

import pytest
from import_contract import InterchangeContract
from known_workloads_contract import KnownWorkloadsContract
from lease_contract import LeaseContract, ProcessContract
from miss_contract import MissContract
from near_contract import NearContract
from origin_contract import OriginContract
from round_contract import RoundContract
from shared_rounds_contract import SharedRoundsContract
from store_contract import StoreContract


class Contract(
    StoreContract,
    MissContract,
    NearContract,
    OriginContract,
    InterchangeContract,
    KnownWorkloadsContract,
    RoundContract,
    SharedRoundsContract,
    LeaseContract,
    ProcessContract,
):
    """All of it."""


class TestSQLite(Contract):
    @pytest.fixture
    def url(self, sqlite_url: str) -> str:
        return sqlite_url


@pytest.mark.postgresql
class TestPostgreSQL(Contract):
    @pytest.fixture
    def url(self, postgresql_url: str) -> str:
        return postgresql_url
