"""A progress bar on stderr for what reads or writes files."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from tunebook.service.output import progress_bars

if TYPE_CHECKING:
    from tunebook.tuner.interchange.file_progress import FileProgress


class FileProgressBar:
    """A bar for each step, shown on a terminal only, and not where machines read the answer."""

    def __init__(self, *, quiet: bool) -> None:
        self._bars = progress_bars(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            quiet=quiet,
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
