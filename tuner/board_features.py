"""Which CPU features a target's code needs of a board, and which a board lacks."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from tunebook.cache.targets import ARCHITECTURES, Target
from tunebook.tuner.llvm_targets import llvm_features

# What LLVM may make a tensor program of, by its names, of what boards tell (cpu_features.py). Not
# among them is what takes an instruction by name, such as encryption, which LLVM counts to
# Cortex-A72, and the Raspberry Pi 4, which is one, lacks; nor what serves locks alone.
_AARCH64 = frozenset(
    {
        "fp-armv8",
        "neon",
        "rdm",
        "fullfp16",
        "fp16fml",
        "dotprod",
        "i8mm",
        "bf16",
        "complxnum",
        "fptoint",
        "lse",
        "cssc",
        "mops",
        "sve",
        "sve2",
        "sve2p1",
        "sve-b16b16",
        "f32mm",
        "f64mm",
        "sme",
        "sme2",
        "sme2p1",
        "sme-i16i64",
        "sme-f64f64",
        "sme-f16f16",
        "sme-b16b16",
    }
)
_X86_64 = frozenset(
    {
        "cmov",
        "cx16",
        "sahf",
        "popcnt",
        "movbe",
        "sse",
        "sse2",
        "sse3",
        "ssse3",
        "sse4.1",
        "sse4.2",
        "sse4a",
        "avx",
        "avx2",
        "f16c",
        "fma",
        "fma4",
        "xop",
        "tbm",
        "lzcnt",
        "bmi",
        "bmi2",
        "gfni",
        "avx512f",
        "avx512bw",
        "avx512cd",
        "avx512dq",
        "avx512vl",
        "avx512ifma",
        "avx512vbmi",
        "avx512vbmi2",
        "avx512vnni",
        "avx512bitalg",
        "avx512vpopcntdq",
        "avx512bf16",
        "avx512fp16",
        "avxvnni",
        "avxvnniint8",
        "avxvnniint16",
        "avxneconvert",
        "avxifma",
        "amx-tile",
        "amx-int8",
        "amx-bf16",
        "amx-fp16",
    }
)
GENERATED = {"aarch64": _AARCH64, "x86_64": _X86_64}
_MOST_NAMED = 6


@lru_cache(maxsize=256)
def needed_features(target: Target) -> frozenset[str]:
    """The CPU features, by LLVM's names, that the target's `mcpu` and `mattr` switch on and that
    code of tensor programs may be made of; empty for an architecture whose boards tell none."""
    generated = GENERATED.get(target.architecture or "")
    return llvm_features(target) & generated if generated else frozenset()


def missing_features(needed: frozenset[str], told: Iterable[str]) -> tuple[str, ...]:
    """What of `needed` a board lacks, by name; nothing for a board that tells no features."""
    has = frozenset(told)
    return tuple(sorted(needed - has)) if has else ()


def runs_architecture(target: Target, mtriple: str) -> bool:
    """Whether a board of this triple (empty: it tells none) has the target's architecture."""
    return not mtriple or ARCHITECTURES.get(mtriple.partition("-")[0]) == target.architecture


def some_of(names: Iterable[str]) -> str:
    """Names for a sentence, the first of them where they are many."""
    all_names = list(names)
    more = len(all_names) - _MOST_NAMED
    shown = ", ".join(all_names[:_MOST_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown
