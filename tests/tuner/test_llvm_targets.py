"""Targets checked against LLVM."""

from __future__ import annotations

import os
import platform

import pytest
from near_programs import A76

from tunebook.cache.errors import TargetError
from tunebook.cache.targets import ARCHITECTURES, Target
from tunebook.tuner.llvm_targets import resolve_target, runs_here, target_features, tvm_target
from tunebook.tuner.trials.linking import linker_for


@pytest.mark.parametrize(
    ("spelling", "named"),
    [
        (
            "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a9999 -num-cores=4",
            ["cortex-a9999", "did you mean 'cortex-a"],
        ),
        (
            "llvm -mtriple=x86_64-linux-gnu -mcpu=cortex-a76 -num-cores=4",
            ["cortex-a76", "x86_64-linux-gnu"],
        ),
        (
            "llvm -mtriple=aarch64-linux-gnu -mattr=+dotprd -num-cores=4",
            ["+dotprd", "did you mean 'dotprod'"],
        ),
        ("llvm -mtriple=aarch64-linux-gnu -mattr=+nonsense -num-cores=4", ["+nonsense"]),
        ("llvm -mtriple=aarch64-linux-gnu -mattr=-avx2 -num-cores=4", ["-avx2"]),
        # LLVM ends the process when it is asked about this one.
        ("llvm -mtriple=pdp11-linux-gnu -num-cores=4", ["pdp11", "aarch64"]),
        ("llvm -mtriple=armfoo-linux-gnu -num-cores=4", ["armfoo", "armv7a"]),
        # LLVM knows these, but nothing here links for them.
        ("llvm -mtriple=riscv64-linux-gnu -num-cores=4", ["riscv64", "aarch64"]),
        ("llvm -mtriple=i686-linux-gnu -num-cores=4", ["i686", "x86_64"]),
        ("llvm -mtriple=thumbv8-linux-gnu -num-cores=4", ["thumbv8", "thumbv7"]),
        ("llvm -mtriple=aarch64-linux-gnu -cl-opt=nonsense -num-cores=4", ["-cl-opt=nonsense"]),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76", ["-num-cores"]),
    ],
)
def test_what_llvm_does_not_know_is_refused_by_name(
    spelling: str, named: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(TargetError) as refused:
        resolve_target(spelling)
    assert all(text in str(refused.value) for text in named)
    assert "\n" not in str(refused.value)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "spelling",
    [
        A76,
        "llvm -mtriple=aarch64-linux-gnu -mattr=+dotprod,+neon -num-cores=4",
        "llvm -mtriple=armv7l-linux-gnueabihf -mcpu=cortex-a53 -mattr=+neon -num-cores=4",
        # A switch that no CPU has by itself.
        "llvm -mtriple=aarch64-linux-gnu -mattr=+reserve-x18 -num-cores=4",
        "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -mattr=-avx512f -num-cores=4",
    ],
)
def test_what_llvm_knows_keeps_its_canonical_text(
    spelling: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert str(resolve_target(spelling)) == spelling
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_llvm_knows_and_something_links_for_every_architecture_of_the_table(name: str) -> None:
    target = resolve_target(f"llvm -mtriple={name}-linux-gnueabihf -num-cores=1")
    assert target.architecture == ARCHITECTURES[name]
    assert callable(linker_for(str(target)))


def test_a_board_class_may_supply_the_cores() -> None:
    spelling = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76"
    assert resolve_target(spelling, num_cores=4).num_cores == 4


def test_host_is_this_machine_with_the_cores_that_we_may_use(host: Target) -> None:
    assert host.mtriple == f"{platform.machine()}-linux-gnu"
    assert host.num_cores == len(os.sched_getaffinity(0))
    assert resolve_target(str(host)) == host
    assert runs_here(host)


def test_another_architecture_does_not_run_here() -> None:
    other = "x86_64" if platform.machine() == "aarch64" else "aarch64"
    assert not runs_here(f"llvm -mtriple={other}-linux-gnu -num-cores=4")


def test_tvm_gets_every_attribute_in_the_type_that_it_declares() -> None:
    target = tvm_target(
        "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -mattr=+fullfp16,+sha3 "
        "-fast-math=1 -opt-level=2 -vector-width=128 -model=pi5 -num-cores=4"
    )
    attributes = dict(target.export())
    assert target.kind.name == "llvm"
    assert list(attributes["mattr"]) == ["+fullfp16", "+sha3"]
    assert attributes["mtriple"] == "aarch64-linux-gnu"
    assert attributes["mcpu"] == "cortex-a76"
    assert attributes["fast-math"] is True
    assert attributes["opt-level"] == 2
    assert attributes["vector-width"] == 128
    assert attributes["model"] == "pi5"
    assert attributes["num-cores"] == 4


def test_the_cpu_decides_what_tvm_may_tensorise_for() -> None:
    with_dot_product = dict(tvm_target(A76).export())
    without = dict(tvm_target(A76.replace("a76", "a72")).export())
    assert with_dot_product["feature.has_dotprod"]
    assert not without["feature.has_dotprod"]


@pytest.mark.parametrize(
    ("other", "same"),
    [
        # What the processor has by itself.
        (A76.replace(" -num", " -mattr=+dotprod -num"), True),
        (A76.replace(" -num", " -mattr=+dotprod,+neon -num"), True),
        (A76.replace(" -num", " -mattr=+sve -num"), False),
        (A76.replace(" -num", " -mattr=-dotprod -num"), False),
        (A76.replace("a76", "a72"), False),
    ],
)
def test_two_texts_have_the_features_that_llvm_switches_on_for_them(other: str, same: bool) -> None:
    assert len(target_features(A76)) == 16
    assert (target_features(other) == target_features(A76)) == same
