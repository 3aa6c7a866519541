"""The reference kernel is one program, whatever is tuned for."""

from __future__ import annotations

from statistics import median

import pytest

from tunebook.cache.errors import TargetError
from tunebook.tuner.trials.build_pool import BuildPool
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.reference_kernel import (
    build_reference,
    measure_reference,
    reference_program,
)
from tunebook.tuner.trials.tensors import byte_count
from tunebook.tuner.trials.trials import BuiltLibrary


@pytest.fixture
def triple(host: str) -> str:
    (found,) = [one for one in host.split() if one.startswith("-mtriple=")]
    return found.removeprefix("-mtriple=")


def test_a_board_takes_a_few_milliseconds_for_it_and_times_it_as_trials(
    pool: BuildPool, measurer: Measurer, triple: str
) -> None:
    measured = measure_reference(measurer, build_reference(pool, triple))
    assert measured.error is None, measured.error_text
    assert len(measured.run_seconds) >= 9
    assert 1e-5 < median(measured.run_seconds) < 0.1
    assert measured.board
    assert "load" in measured.board_state


def test_it_fits_into_the_smallest_first_level_cache() -> None:
    assert byte_count(reference_program().buffers) <= 20 * 1024


def test_it_is_built_for_boards_of_other_architectures(pool: BuildPool) -> None:
    built = build_reference(pool, "aarch64-linux-gnu").result()
    assert isinstance(built, BuiltLibrary), built
    assert built.module_hash == reference_program().key.hash


def test_an_architecture_that_is_none_is_refused(pool: BuildPool) -> None:
    with pytest.raises(TargetError, match="no triple"):
        build_reference(pool, "nonsense")
