"""A board's peak is measured with kernels of our own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tunebook.cache.errors import BoardError
from tunebook.tuner.splitting.program import Program
from tunebook.tuner.trials.build_pool import BuildPool
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.peak import measure_peak
from tunebook.tuner.trials.trials import BuiltLibrary


def test_no_plain_kernel_comes_near_it(
    pool: BuildPool,
    measurer: Measurer,
    host: str,
    build: Callable[..., BuiltLibrary],
    matmul_program: Program,
) -> None:
    peak = measure_peak(pool, measurer, host)
    measured = measurer.measure(build(matmul_program), matmul_program)
    assert measured.seconds is not None
    assert matmul_program.flops / measured.seconds < peak.flops_per_second
    assert peak.bytes_per_second > 0


def test_it_leaves_no_libraries_behind(pool: BuildPool, measurer: Measurer, host: str) -> None:
    before = set(pool.folder.iterdir())
    measure_peak(pool, measurer, host)
    assert set(pool.folder.iterdir()) == before


def test_without_a_board_it_is_an_error_in_words(pool: BuildPool, board, host: str) -> None:
    address = replace(board.address, board_class="rpi4")
    with (
        Measurer(address, num_cores=1, board_timeout=0.2) as measurer,
        pytest.raises(BoardError, match="rpi4"),
    ):
        measure_peak(pool, measurer, host)
