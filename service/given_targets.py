"""The canonical text of a target as people spell it, without TVM where it goes."""

from __future__ import annotations

from tunebook.cache.errors import TargetError
from tunebook.cache.targets import canonical_target

HOST = "host"


def target_text(spelling: str) -> str:
    """The canonical text of a spelling.

    Only `host` needs TVM here: whether LLVM knows a processor is checked where a model is split.
    Raises TargetError.
    """
    return this_machine() if spelling == HOST else str(canonical_target(spelling))


def this_machine() -> str:
    """The canonical text of the target `host`. Raises TargetError where TVM is not installed."""
    try:
        from tunebook.tuner.llvm_targets import resolve_target
    except ModuleNotFoundError:
        raise TargetError(
            "the target host stands for this machine, and only an installation with TVM can tell "
            "what that is; give the text that `tunebook target host` prints where it is installed"
        ) from None
    return str(resolve_target(HOST))
