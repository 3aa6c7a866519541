"""Targets completed by what is known of the boards that are to measure for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tunebook.cache.boards.board_reports import ClassDefaults
from tunebook.cache.boards.known_boards import known_boards
from tunebook.cache.errors import TargetError
from tunebook.cache.store import Store
from tunebook.cache.targets import MissingCoresError, canonical_target


@dataclass(frozen=True)
class KnownClass:
    """What is known of a board class: its defaults, where it has some, and the numbers of cores of
    its boards."""

    name: str
    defaults: ClassDefaults | None = None
    cores: frozenset[int] = frozenset()

    def complete(self, spelling: str | Mapping[str, Any] | None) -> str:
        """The canonical text of a target of which the class supplies what is left out; of None all
        of it. Cores may also be those that all of its boards have.

        Raises MissingCoresError where nothing says how many cores, and TargetError.
        """
        if spelling is None:
            return self._whole()
        supplied = {} if self.defaults is None else self.defaults.attributes()
        try:
            return str(canonical_target(spelling, defaults=supplied))
        except MissingCoresError:
            return str(canonical_target(spelling, num_cores=self._agreed_cores()))

    def _whole(self) -> str:
        if self.defaults is None or not self.defaults.mcpu:
            lacking = "no defaults" if self.defaults is None else "no default of -mcpu"
            raise TargetError(
                f"no target is given, and the board class {self.name} has {lacking} to make one "
                f"of; give a target, or `tunebook boards set-class {self.name}` the defaults"
            )
        return str(self.defaults.target)

    def _agreed_cores(self) -> int:
        known = sorted(self.cores)
        if not known:
            raise MissingCoresError(
                f"the target has no -num-cores, and the board class {self.name} has none to "
                "supply: it has no defaults, and no board of it tells; add for example "
                "-num-cores=4"
            )
        if len(known) > 1:
            raise MissingCoresError(
                f"the target has no -num-cores, and the boards of class {self.name} have "
                f"{' or '.join(map(str, known))}; add -num-cores={known[0]}, or another of them"
            )
        return known[0]


def known_class(store: Store, name: str) -> KnownClass:
    """What a database knows of a class."""
    boards = known_boards(store.boards.boards(name), store.fleet.workers())
    cores = (board.cores for board in boards if board.board_class == name)
    return KnownClass(name, store.boards.defaults(name), told_cores(cores))


def told_cores(cores: Iterable[int | None]) -> frozenset[int]:
    """The numbers of cores of those boards that tell."""
    return frozenset(number for number in cores if number)
