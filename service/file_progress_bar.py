"""A progress bar on stderr for what reads or writes files."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

if TYPE_CHECKING:
    from tunebook.tuner.interchange.file_progress import FileProgress


class FileProgressBar:
    """A bar for each step, shown on a terminal only, and not where machines read the answer."""

    def __init__(self, *, quiet: bool) -> None:
        console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=console,
            # Where no terminal shows it, a bar is but an empty line.
            disable=quiet or not console.is_terminal,
            transient=True,
        )
        self._steps: dict[str, TaskID] = {}

    def __enter__(self) -> FileProgressBar:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def show(self, progress: FileProgress) -> None:
        """Moves the bar of the step that is told of."""
        if progress.step not in self._steps:
            self._steps[progress.step] = self._bars.add_task(progress.step, total=progress.total)
        self._bars.update(self._steps[progress.step], completed=progress.done, total=progress.total)
