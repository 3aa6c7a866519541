"""Targets have names as short as tells them apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tunebook.service.dashboard.target_labels import target_labels

PI = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"
PI_DOTPROD = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -mattr=+dotprod,+neon -num-cores=4"
SERVER = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=2"
BARE = "llvm -mtriple=x86_64-linux-gnu -num-cores=1"


def test_a_processor_and_its_cores_are_enough_where_nothing_else_has_them() -> None:
    assert target_labels([PI, SERVER]) == {PI: "cortex-a76, 4 cores", SERVER: "znver4, 2 cores"}


def test_targets_of_one_processor_are_told_apart_by_their_features() -> None:
    assert target_labels([PI, PI_DOTPROD]) == {
        PI: "cortex-a76 (aarch64), 4 cores",
        PI_DOTPROD: "cortex-a76 (aarch64 +dotprod +neon), 4 cores",
    }


def test_a_target_without_a_processor_is_called_by_its_architecture() -> None:
    assert target_labels([BARE]) == {BARE: "x86_64, 1 core"}


def test_what_is_no_target_is_called_by_its_text() -> None:
    assert target_labels(["<script>"]) == {"<script>": "<script>"}


@given(st.lists(st.sampled_from([PI, PI_DOTPROD, SERVER, BARE, "x", f"{PI} -opt-level=1"])))
def test_no_two_targets_share_a_label(targets: list[str]) -> None:
    labels = target_labels(targets)
    assert labels.keys() == set(targets)
    assert len(set(labels.values())) == len(labels)
