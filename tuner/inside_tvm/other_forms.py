"""Programs that are stored, asked for with other attributes than they had when they were tuned.

TVM's attributes of a function are part of its hash. FuseOps goes by `op_pattern`, which a function
loses when others are fused into it; fusing what is fused already gives it one again. A function
that was given a `global_symbol` is hashed with that name.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import tvm

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import Difference, Miss, MissReason
from tunebook.tuner.splitting.program import ENTRY

_SYMBOL = "global_symbol"
_PATTERN = "op_pattern"


@dataclass(frozen=True)
class OtherForm:
    """The key under which a program is stored, and how the one that was asked for differs."""

    key: ScheduleKey
    differences: tuple[Difference, ...]

    def explain(self, miss: Miss) -> Miss:
        """The miss of the form that was asked for: another pipeline made it."""
        told = "; ".join(map(str, self.differences))
        return replace(
            miss,
            reason=MissReason.OTHER_PIPELINE,
            nearest=self.key,
            differences=self.differences,
            explanation=(
                f"{self.key.op} is stored with other attributes of its function ({told}): the "
                f"module was fused twice, or its functions were given symbols, before the "
                f"database was applied"
            ),
            # Prepares the model as it was when it was tuned.
            mending_command=f"tunebook build MODEL --target {shlex.quote(miss.key.target)} -o OUT",
        )


def other_forms(module: Any) -> Iterator[tuple[Any, tuple[Difference, ...]]]:
    """The forms in which a normalised module's program may be stored, each with how the module
    differs from it."""
    attributes = dict(module[ENTRY].attrs or {})
    function = module[ENTRY].with_attr(_SYMBOL, ENTRY)
    differences: tuple[Difference, ...] = ()
    if attributes.get(_SYMBOL) != ENTRY:
        symbol = str(attributes.get(_SYMBOL, ""))
        differences = (Difference(f"function.{_SYMBOL}", symbol, ENTRY),)
        yield tvm.IRModule({ENTRY: function}), differences
    if _PATTERN in attributes:
        pattern = Difference(f"function.{_PATTERN}", int(attributes[_PATTERN]), None)
        yield tvm.IRModule({ENTRY: function.without_attr(_PATTERN)}), (*differences, pattern)
