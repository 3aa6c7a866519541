"""What a lane has claimed is free again as soon as it leaves it, or as the database is back.

Releases are fakes here: no database is away for one call and back for the next.
"""

from __future__ import annotations

import pytest

from tunebook.cache.errors import DatabaseError, LeaseLostError, TunebookError
from tunebook.workers.fleet.held_claims import HeldClaims

AWAY = DatabaseError("the database does not answer")


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
    claims, one, other = HeldClaims(), Claim(AWAY, AWAY), Claim()
    with pytest.raises(DatabaseError), claims.held(one.release, other.release):
        raise AWAY
    assert not other.free, "each attempt may wait for long"
    claims.release_owed()
    claims.release_owed()
    assert (one.free, other.free) == (True, True)


def test_one_that_fails_again_and_again_does_not_hold_up_the_rest() -> None:
    claims, one, other = HeldClaims(), Claim(*[AWAY] * 9), Claim(AWAY)
    with claims.held(one.release):
        pass
    with claims.held(other.release):
        pass
    for _ in range(3):
        claims.release_owed()
    assert (one.free, other.free) == (False, True)


def test_a_worker_that_leaves_tries_it_once_more() -> None:
    claims, claim = HeldClaims(), Claim(AWAY)
    with claims.held(claim.release):
        pass
    claims.release_all()
    assert claim.free
