"""The model that a command is given, read for the target that it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tunebook.cache.remote.schedule_cache import ScheduleCache
from tunebook.cache.targets import Target
from tunebook.service.commands.options import Layout
from tunebook.service.mending import (
    Boards,
    CommandOptions,
    database_to_name,
    named_boards,
)

if TYPE_CHECKING:
    from tunebook.tuner.importing.imported_model import ImportedModel
    from tunebook.tuner.splitting.choices import Choices


@dataclass(frozen=True)
class OpenedModel:
    """A model with the target to look up or build it for; `shapes` as they were given, and so the
    class of boards, where one was."""

    path: Path
    shapes: tuple[str, ...]
    target: Target
    imported: ImportedModel
    board_class: str | None = None

    def options(
        self,
        db: str | None,
        choices: Choices,
        *,
        accept_emulated: bool,
        output: Path | None = None,
        server: str | None = None,
    ) -> CommandOptions:
        """What a mending command needs to know; without an output, one named after the model."""
        return mending_options(
            self.path,
            self.shapes,
            self.target,
            db,
            choices,
            accept_emulated=accept_emulated,
            output=output,
            server=server,
            board_class=self.board_class,
        )


def open_model(
    path: Path, target: str, shapes: Sequence[str] | None, board_class: str | None = None
) -> OpenedModel:
    """Reads the model file of a local command line, which is trusted. Raises TargetError,
    ModelError and UsageError."""
    # Only here: `tunebook --help` should not wait for TVM.
    from tunebook.tuner.importing.frontend import read_model
    from tunebook.tuner.importing.shapes import parse_shape_options
    from tunebook.tuner.llvm_targets import resolve_target

    resolved = resolve_target(target)
    given = tuple(shapes or ())
    imported = read_model(path, parse_shape_options(given), trust_pickles=True)
    return OpenedModel(path, given, resolved, imported, board_class)


def mending_options(
    path: Path,
    shapes: Sequence[str] | None,
    target: Target,
    db: str | None,
    choices: Choices,
    *,
    accept_emulated: bool,
    output: Path | None = None,
    server: str | None = None,
    board_class: str | None = None,
) -> CommandOptions:
    """What a mending command for a model needs to know; without an output, one named after the
    model."""
    return CommandOptions(
        path,
        output or Path(path.stem),
        tuple(shapes or ()),
        None if server is not None else database_to_name(db),
        boards_for(target, accept_emulated=accept_emulated, board_class=board_class),
        layout_to_name(choices),
        server,
    )


def given_choices(layout: Layout | None) -> Choices | None:
    """What --layout says, if anything."""
    from tunebook.tuner.splitting.choices import Choices

    return None if layout is None else Choices(layout.value)


def choose(opened: OpenedModel, layout: Layout | None, cache: ScheduleCache | None) -> Choices:
    """What --layout says; without it what the model was tuned with last, or else the defaults."""
    from tunebook.tuner.splitting.choices import Choices
    from tunebook.tuner.splitting.stored_choices import stored_choices

    given = given_choices(layout)
    if given is not None:
        return given
    return Choices() if cache is None else stored_choices(cache, opened.imported, opened.target)


def layout_to_name(choices: Choices) -> str | None:
    """What --layout has to say: nothing for the layout that `tune` takes anyway."""
    return choices.layout if str(choices) else None


def boards_for(
    target: Target, *, accept_emulated: bool, board_class: str | None = None
) -> Boards | None:
    """What `tune` must be told of boards: those that were named, nothing where this machine is one
    for the target, the emulated one where its times are accepted; which real ones there are, only
    the user knows."""
    from tunebook.tuner.llvm_targets import runs_here
    from tunebook.workers.boards.guest_server import EMULATED_CLASS

    named = named_boards(board_class)
    if named is not None or runs_here(target):
        return named
    if accept_emulated and target.architecture == "aarch64":
        return Boards(EMULATED_CLASS)
    return Boards("CLASS", "HOST:PORT")
