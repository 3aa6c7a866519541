"""What the coordinator needs of the workers that it starts."""

from __future__ import annotations

from typing import Protocol


class WorkerProcesses(Protocol):
    """The workers that run as children of the coordinator."""

    def start(self) -> None:
        """Starts them."""

    def stop(self) -> None:
        """Ends them, within seconds; what they have measured is stored. Again it does nothing."""

    def fault(self) -> str | None:
        """Why they do not work, in a line; None where they do."""
