"""What a workload is like beyond its key: never part of a hit, it tells a miss what is near."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tunebook.cache.keys import WorkloadKey


@dataclass(frozen=True)
class Likeness:
    """How a program is told from others that resemble it; an empty text is unknown, or none.

    `structure` is the structural hash of the program with every scalar constant made zero,
    `anchor` that of its heaviest block alone: both hold for one compiler only. `attributes` are the
    attributes of the operators as a JSON object (`{"conv2d.strides": [2, 2]}`) and `constants` the
    scalar constants in the order of the program as a JSON list: both hold for any compiler.
    """

    structure: str = ""
    anchor: str = ""
    attributes: str = ""
    constants: str = ""


UNKNOWN = Likeness()


@dataclass(frozen=True)
class LookupHints:
    """What whoever looks up knows of keys that were perhaps never stored.

    `features` gives for each target text a hash of the features that LLVM switches on for it: two
    targets with the same are equivalent, whatever their texts.
    """

    likeness: Mapping[WorkloadKey, Likeness] = field(default_factory=lambda: MappingProxyType({}))
    features: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


NO_HINTS = LookupHints()
