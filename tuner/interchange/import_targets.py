"""The targets of records from outside, as Tunebook spells them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tunebook.cache.errors import TargetError
from tunebook.cache.exchange.skipped_lines import SkipReason
from tunebook.cache.targets import MissingCoresError, Target
from tunebook.tuner.llvm_targets import resolve_target


@dataclass(frozen=True)
class RefusedTarget:
    """Why records of a target are left out."""

    reason: SkipReason
    detail: str


class ImportTargets:
    """Reads TVM's form of targets, each once.

    With `wanted`, records of other targets are left out; one that says no target, or no number of
    cores, is taken to be for the wanted one where nothing speaks against it.
    """

    def __init__(self, wanted: Target | None) -> None:
        self._wanted = wanted
        self._read: dict[str, str | RefusedTarget] = {}

    def find(self, spelling: Mapping[str, Any] | None) -> str | RefusedTarget:
        """The canonical text of a target."""
        name = json.dumps(spelling)
        if name not in self._read:
            self._read[name] = self._find(spelling)
        return self._read[name]

    def _find(self, spelling: Mapping[str, Any] | None) -> str | RefusedTarget:
        if spelling is None:
            if self._wanted is not None:
                return str(self._wanted)
            return RefusedTarget(
                SkipReason.BAD_TARGET, "the record names no target; say which with --target"
            )
        try:
            target = self._resolve(spelling)
        except TargetError as error:
            return RefusedTarget(SkipReason.BAD_TARGET, str(error))
        if self._wanted not in (None, target):
            return RefusedTarget(SkipReason.OTHER_TARGET, str(target))
        return str(target)

    def _resolve(self, spelling: Mapping[str, Any]) -> Target:
        try:
            return resolve_target(dict(spelling))
        except MissingCoresError:
            if self._wanted is None:
                raise
            return resolve_target(dict(spelling), num_cores=self._wanted.num_cores)
