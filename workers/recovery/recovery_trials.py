"""How many trials a near schedule is worth, by how it is near."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from tunebook.cache.misses import MissReason


@dataclass(frozen=True)
class RecoveryTrials:
    """At most `most` trials of a task; with `until_served` no more once one of them is served."""

    most: int
    until_served: bool = False


# The same program: its trace does there what it does here, and only one that fails asks for more.
_ONE_IS_ENOUGH = RecoveryTrials(4, until_served=True)
# Another program: which of a trace's adaptations wins is only known when it was measured.
_OTHER_PROGRAM = RecoveryTrials(8)
_BY_REASON = MappingProxyType(
    {
        MissReason.EQUIVALENT_TARGET: _ONE_IS_ENOUGH,
        MissReason.OTHER_COMPILER: _ONE_IS_ENOUGH,
        MissReason.OTHER_CONSTANTS: _ONE_IS_ENOUGH,
        # The order of times measured elsewhere, or with other features, may be another here.
        MissReason.UNVERIFIED: RecoveryTrials(4),
        MissReason.EMULATED_ONLY: RecoveryTrials(4),
        MissReason.OTHER_TARGET: RecoveryTrials(4),
    }
)


def recovery_trials(reason: MissReason, wanted: int | None = None) -> RecoveryTrials:
    """What a task gets whose nearest schedule is near in this way; `wanted` trials instead, if
    given."""
    if wanted is not None:
        return RecoveryTrials(wanted)
    return _BY_REASON.get(reason, _OTHER_PROGRAM)
