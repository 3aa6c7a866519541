"""The target of a submitted job, completed by what is known of its boards."""

from __future__ import annotations

from collections.abc import Collection

from tunebook.cache.errors import TargetError
from tunebook.cache.targets import MissingCoresError, canonical_target
from tunebook.service.given_targets import HOST


def job_target(spelling: str, board_class: str, cores: Collection[int]) -> str:
    """The canonical text of a target; `cores` are the numbers of cores of the boards of its class,
    and stand in for `-num-cores` where they agree.

    Raises TargetError for one that cannot be completed, and for `host`.
    """
    if spelling.strip() == HOST:
        raise TargetError(
            "the target host stands for the machine of whoever asks, which the coordinator does "
            "not know; give the text that `tunebook target host` prints there"
        )
    try:
        return str(canonical_target(spelling))
    except MissingCoresError:
        known = sorted(set(cores))
        if not known:
            raise TargetError(
                f"the target has no -num-cores, and no board of class {board_class} is there to "
                f"tell; add for example -num-cores=4"
            ) from None
        if len(known) > 1:
            raise TargetError(
                f"the target has no -num-cores, and the boards of class {board_class} have "
                f"{' or '.join(map(str, known))}; add -num-cores={known[0]}, or another of them"
            ) from None
        return str(canonical_target(spelling, num_cores=known[0]))
