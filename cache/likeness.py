"""What a workload is like beyond its key: never part of a hit, it tells a miss what is near."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any

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


@lru_cache(maxsize=1 << 14)
def parsed_attributes(text: str) -> Mapping[str, Any] | None:
    """The attributes of a likeness; None where they are unknown."""
    found = _parsed(text)
    return MappingProxyType(found) if isinstance(found, dict) else None


@lru_cache(maxsize=1 << 14)
def parsed_constants(text: str) -> tuple[Any, ...] | None:
    """The constants of a likeness; None where they are unknown."""
    found = _parsed(text)
    return tuple(found) if isinstance(found, list) else None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
