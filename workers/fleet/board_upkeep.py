"""What a lane does for its boards beside its jobs: it measures references, and suspect records
again."""

from __future__ import annotations

from collections.abc import Sequence

from tunebook.workers.boards.board_classes import BoardClass
from tunebook.workers.fleet.fleet_context import FleetContext
from tunebook.workers.fleet.open_workbenches import OpenWorkbenches
from tunebook.workers.fleet.reference_checks import ReferenceChecks
from tunebook.workers.fleet.reference_looks import ReferenceLooks
from tunebook.workers.fleet.suspect_checks import SuspectChecks


class BoardUpkeep:
    """What a lane does for its boards beside its jobs; its loops call it between two things, so
    that none of it runs beside a measurement on this machine. Every method raises DatabaseError."""

    def __init__(
        self,
        context: FleetContext,
        classes: Sequence[BoardClass],
        benches: OpenWorkbenches,
        references: ReferenceChecks,
    ) -> None:
        self._context = context
        self._classes = classes
        self._looks = ReferenceLooks(
            context.store,
            references,
            context.stop,
            run_timeout=context.settings.run_timeout,
            monotonic=context.monotonic,
        )
        self._suspects = SuspectChecks(context, benches)

    def end_at_once(self) -> None:
        """Ends what is measured now; the worker's stop is set before."""
        self._looks.end_at_once()

    @property
    def usable(self) -> list[str]:
        """The classes of which a board is there that is not in quarantine."""
        return [one.name for one in self._classes if one.is_there and self._looks.any_usable(one)]

    def between_jobs(self) -> None:
        """Looks whether boards in quarantine measure well again."""
        for one in self._classes:
            self._looks.look(one, idle=False)

    def while_idle(self) -> bool:
        """Looks at all boards that are due, and measures some suspect records again; whether there
        was anything to do. Raises BoardError when no board can be had."""
        found = False
        for one in self._classes:
            found = self._looks.look(one, idle=True) or found
            if one.is_there and self._looks.any_usable(one):
                found = self._suspects.measure_some(one) or found
        return found
