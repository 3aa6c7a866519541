"""The canonical text of a target as people spell it, without TVM where it goes."""

from __future__ import annotations

from collections.abc import Callable

from tunebook.cache.errors import TargetError
from tunebook.cache.targets import MissingCoresError, canonical_target

HOST = "host"


def target_text(spelling: str, *, cores: Callable[[], int | None] = lambda: None) -> str:
    """The canonical text of a spelling; `cores` is asked for -num-cores where it has none.

    Only `host` needs TVM here: whether LLVM knows a processor is checked where a model is split.
    Raises TargetError.
    """
    if spelling == HOST:
        return _this_machine()
    try:
        return str(canonical_target(spelling))
    except MissingCoresError:
        supplied = cores()
        if supplied is None:
            raise
        return str(canonical_target(spelling, num_cores=supplied))


def _this_machine() -> str:
    try:
        from tunebook.tuner.llvm_targets import resolve_target
    except ModuleNotFoundError:
        raise TargetError(
            "the target host stands for this machine, and only an installation with TVM can tell "
            "what that is; give the text that `tunebook target host` prints where it is installed"
        ) from None
    return str(resolve_target(HOST))
