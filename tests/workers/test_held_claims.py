"""What a lane has claimed is free again as soon as it leaves it, or as the database is back.

Releases are fakes here: no database is away for one call and back for the next.
"""

from __future__ import annotations

import pytest

from tunebook.cache.errors import DatabaseError, LeaseLostError, TunebookError
from tunebook.workers.fleet.held_claims import HeldClaims


class Claim:
    """Fails with each of these errors in turn, and is free then."""

    def __init__(self, *errors: TunebookError) -> None:
        self._errors = list(errors)
        self.free = False

    def release(self) -> None:
        if self._errors:
            raise self._errors.pop(0)
        self.free = True


def test_a_claim_is_held_until_its_block_ends() -> None:
    claims, claim = HeldClaims(), Claim()
    with claims.held(claim.release):
        assert not claim.free
    assert claim.free


def test_what_is_anothers_is_left_and_the_rest_let_go_of() -> None:
    claims, lost, other = HeldClaims(), Claim(LeaseLostError("it is another's")), Claim()
    with claims.held(lost.release, other.release):
        pass
    claims.release_all()
    assert (lost.free, other.free) == (False, True)


def test_what_a_database_that_is_away_keeps_is_let_go_of_once_it_is_back() -> None:
    away = DatabaseError("the database does not answer")
    claims, one, other = HeldClaims(), Claim(away, away), Claim(away)
    with pytest.raises(DatabaseError), claims.held(one.release, other.release):
        raise away
    claims.release_owed()
    assert (one.free, other.free) == (False, True)
    claims.release_owed()
    assert one.free


def test_a_worker_that_leaves_tries_it_once_more() -> None:
    claims, claim = HeldClaims(), Claim(DatabaseError("the database does not answer"))
    with claims.held(claim.release):
        pass
    claims.release_all()
    assert claim.free
