"""The store's contract, kept by both databases."""

from __future__ import annotations

import pytest
from event_contract import EventContract
from fleet_contract import PresenceContract
from import_contract import InterchangeContract
from joining_contract import JoiningContract
from known_workloads_contract import KnownWorkloadsContract
from lease_contract import LeaseContract, ProcessContract
from limits_contract import SharedLimitsContract
from miss_contract import MissContract
from near_contract import NearContract
from origin_contract import OriginContract
from retention_contract import RetentionContract
from round_contract import RoundContract
from shared_rounds_contract import SharedRoundsContract, SubmittedRoundsContract
from stage_contract import StageContract
from store_contract import StoreContract
from submission_contract import QueueContract
from writers_contract import WritersContract


class Contract(
    StoreContract,
    MissContract,
    NearContract,
    OriginContract,
    InterchangeContract,
    KnownWorkloadsContract,
    RoundContract,
    SharedRoundsContract,
    SubmittedRoundsContract,
    LeaseContract,
    ProcessContract,
    QueueContract,
    JoiningContract,
    StageContract,
    EventContract,
    RetentionContract,
    SharedLimitsContract,
    PresenceContract,
    WritersContract,
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
