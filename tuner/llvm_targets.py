"""Targets checked against what LLVM knows, and TVM's own object for them."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from typing import Any

from tvm.target import Target as TvmTarget
from tvm.target import codegen

from tunebook.cache.errors import TargetError
from tunebook.cache.nearest_names import did_you_mean
from tunebook.cache.targets import ARCHITECTURES, Target, canonical_target
from tunebook.tuner.one_line import one_line
from tunebook.tuner.tvm_compat import silent_native_stderr

HOST = "host"


def resolve_target(spelling: Any, *, num_cores: int | None = None) -> Target:
    """The canonical target of a spelling, with its CPU and attributes known to LLVM.

    `spelling` is whatever `canonical_target` reads, or `host` for this machine; `num_cores` is
    what a board class supplies when the spelling does not. Raises TargetError.
    """
    if isinstance(spelling, str) and spelling.strip() == HOST:
        return host_target(num_cores=num_cores)
    target = canonical_target(spelling, num_cores=num_cores)
    _require_architecture(target)
    if target.mcpu:
        _require_cpu(target.mtriple, target.mcpu)
    for attribute in target.mattr:
        _require_attribute(target.mtriple, attribute)
    if target.options:
        _require_options(target)
    return target


def host_target(*, num_cores: int | None = None) -> Target:
    """This machine: LLVM's name of its CPU, and as many cores as this process may use."""
    cores = num_cores or len(os.sched_getaffinity(0))
    architecture = codegen.llvm_get_system_triple().split("-")[0]
    return canonical_target(
        {
            "kind": "llvm",
            "mtriple": f"{architecture}-linux-gnu",
            "mcpu": codegen.llvm_get_system_cpu(),
            "num-cores": cores,
        }
    )


def tvm_target(target: Target | str) -> TvmTarget:
    """TVM's target for a canonical one."""
    if isinstance(target, str):
        target = canonical_target(target)
    fields: dict[str, Any] = {
        "kind": target.kind,
        "mtriple": target.mtriple,
        "num-cores": target.num_cores,
    }
    if target.mcpu:
        fields["mcpu"] = target.mcpu
    if target.mattr:
        fields["mattr"] = list(target.mattr)
    if target.model:
        fields["model"] = target.model
    fields.update((name, _option_value(name, text)) for name, text in target.options)
    return TvmTarget(fields)


def target_features(target: Target | str) -> str:
    """A hash of the features that LLVM switches on for a target, 16 hex digits.

    Targets of the same triple, options and cores with the same hash allow the same instructions.
    """
    features = " ".join(sorted(llvm_features(target)))
    return hashlib.sha256(features.encode()).hexdigest()[:16]


def llvm_features(target: Target | str) -> frozenset[str]:
    """The features that LLVM switches on for a target, by its names: instructions, and what it
    knows to be quick."""
    return frozenset(map(str, codegen.llvm_get_cpu_features(tvm_target(target))))


def runs_here(target: Target | str) -> bool:
    """Whether this machine has the architecture that the target names."""
    if isinstance(target, str):
        target = canonical_target(target)
    here = ARCHITECTURES.get(platform.machine().lower())
    return here is not None and target.architecture == here


def _option_value(name: str, text: str) -> Any:
    """An option's canonical text as the type that TVM declares for it."""
    if name.startswith("fast-math"):
        return True  # a flag that is off has no place in a canonical target
    if name == "cl-opt":
        return text.split(",")
    return int(text) if text.isdigit() else text


def _require_architecture(target: Target) -> None:
    # LLVM crashes on some that it does not know, and what it knows may still have no linker.
    if target.architecture is None:
        name = target.mtriple.partition("-")[0]
        raise TargetError(
            f"Tunebook makes no code for the architecture {name!r} of -mtriple={target.mtriple}; "
            f"known are {', '.join(ARCHITECTURES)}"
        )


def _require_cpu(mtriple: str, mcpu: str) -> None:
    known = _cpus(mtriple)
    if mcpu not in known:
        raise TargetError(f"LLVM knows no -mcpu={mcpu} for {mtriple}{did_you_mean(mcpu, known)}")


def _require_attribute(mtriple: str, attribute: str) -> None:
    name = attribute.lstrip("+-")
    if name in _cpu_features(mtriple) or _is_feature(mtriple, name):
        return
    raise TargetError(
        f"LLVM knows no -mattr={attribute} for {mtriple}"
        f"{did_you_mean(name, _cpu_features(mtriple))}"
    )


def _require_options(target: Target) -> None:
    try:
        with silent_native_stderr():
            tvm_target(target)
    except Exception as error:
        options = " ".join(f"-{name}={text}" for name, text in target.options)
        raise TargetError(f"TVM refuses the options {options}: {one_line(error)}") from error


@cache
def _cpus(mtriple: str) -> tuple[str, ...]:
    return tuple(codegen.llvm_get_cpu_archlist(TvmTarget({"kind": "llvm", "mtriple": mtriple})))


@cache
def _cpu_features(mtriple: str) -> frozenset[str]:
    """What some CPU of this architecture has; nearly all features, but for tuning switches."""
    found: set[str] = set()
    for mcpu in _cpus(mtriple):
        target = TvmTarget({"kind": "llvm", "mtriple": mtriple, "mcpu": mcpu})
        found |= codegen.llvm_get_cpu_features(target)
    return frozenset(found)


def _is_feature(mtriple: str, name: str) -> bool:
    # LLVM drops a feature that it does not know, and says so on stderr.
    with silent_native_stderr():
        target = TvmTarget({"kind": "llvm", "mtriple": mtriple, "mattr": [f"+{name}"]})
        return name in codegen.llvm_get_cpu_features(target)
