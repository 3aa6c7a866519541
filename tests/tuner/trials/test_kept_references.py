"""Outputs of unscheduled programs are kept up to a number of bytes."""

from __future__ import annotations

import numpy as np

from tunebook.tuner.trials.board_trials import KeptReferences, Reference

A, B, C = ("a", ""), ("b", ""), ("c", "")


def reference(inputs: int, outputs: int) -> Reference:
    return Reference([np.zeros(inputs, "int8")], [np.zeros(outputs, "int8")])


def test_the_least_recently_used_go_first() -> None:
    kept = KeptReferences(100)
    kept.keep(A, reference(20, 20))
    kept.keep(B, reference(20, 20))
    assert kept.find(A) is not None
    kept.keep(C, reference(20, 20))
    assert kept.find(B) is None
    assert kept.find(A) is not None
    assert kept.find(C) is not None


def test_inputs_and_outputs_both_count() -> None:
    kept = KeptReferences(100)
    kept.keep(A, reference(40, 20))
    kept.keep(B, reference(20, 40))
    assert kept.find(A) is None


def test_one_that_is_too_large_is_not_kept() -> None:
    kept = KeptReferences(100)
    kept.keep(A, reference(80, 80))
    assert kept.find(A) is None
