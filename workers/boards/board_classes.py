"""The board classes that a worker serves: who is there now, and a way to them when first needed."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace

from tunebook.cache.board_names import check_own_class
from tunebook.cache.boards.registrations import RegisteredBoard
from tunebook.cache.errors import BoardError, TunebookError, UsageError
from tunebook.cache.queue.fleet import ServedBoard
from tunebook.cache.queue.submissions import is_emulated
from tunebook.cache.targets import Target
from tunebook.tuner.board_features import needed_features
from tunebook.tuner.llvm_targets import runs_here
from tunebook.tuner.trials.linking import linker_for
from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.boards.boards import is_here, is_this_machine, remote_board
from tunebook.workers.boards.emulated_board import emulated_board
from tunebook.workers.boards.emulated_sysroot import is_installed
from tunebook.workers.boards.fitting_boards import why_none_fits
from tunebook.workers.boards.guest_server import EMULATED_CLASS, EMULATED_CORES
from tunebook.workers.boards.local_board import LOCAL_BOARD_CLASS, local_board
from tunebook.workers.boards.tracker import TrackerAddress, parse_tracker, query_tracker

_log = logging.getLogger(__name__)
# A board that could not be had is not asked for again before.
_AWAY_SECONDS = 10.0
_TRACKER_SECONDS = 3.0


class BoardClass:
    """Boards of one class. `look` says which are there; `open` gives the way to them, for as long
    as this object is not closed; `on_this_machine` that what else runs on its processor disturbs
    them, `opens_boards` that opening it starts them; `needs` which CPU features, by LLVM's names, a
    board must have for a target."""

    def __init__(
        self,
        name: str,
        opens: Callable[[], AbstractContextManager[BoardAddress]],
        looks: Callable[[], Sequence[ServedBoard]],
        misfit: Callable[[Target], str | None],
        *,
        on_this_machine: bool,
        opens_boards: bool = False,
        needs: Callable[[Target], frozenset[str]] = lambda _: frozenset(),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.on_this_machine = on_this_machine
        self.opens_boards = opens_boards
        self._opens = opens
        self._looks = looks
        self._misfit = misfit
        self._needs = needs
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._address: BoardAddress | None = None
        self._away_until: float | None = None
        self._there: tuple[ServedBoard, ...] = ()
        self._looked = False

    def look(self) -> tuple[ServedBoard, ...]:
        """The boards that are there now; says in the log when the last is gone, and when one is
        back."""
        try:
            found = () if self._is_away() else tuple(self._looks())
            reason = "none is registered"
        except BoardError as error:
            found, reason = (), str(error)
        if not found and (self._there or not self._looked):
            _log.warning("no board of class %s is there: %s", self.name, reason, extra=self._told)
        if found and not self._there:
            _log.info("boards are there", extra={**self._told, "boards": len(found)})
        self._there, self._looked = found, True
        return found

    @property
    def is_there(self) -> bool:
        """Whether there was a board when it was looked last."""
        return bool(self._there) and not self._is_away()

    def why_not(self, target: Target) -> str | None:
        """Why no board of the class runs code for a target that this machine builds; None where
        one does."""
        try:
            linker_for(str(target))
        except TunebookError as error:
            return str(error)
        return self._misfit(target)

    @property
    def boards_there(self) -> tuple[ServedBoard, ...]:
        """The boards that were there when it was looked last."""
        return self._there

    @property
    def is_open(self) -> bool:
        """Whether it was opened."""
        return self._address is not None

    def open(self, target: Target) -> BoardAddress:
        """The way to the boards that run a target's code. Raises BoardError, and is then away for
        a while."""
        return replace(self.reach(), features=self._needs(target))

    def reach(self) -> BoardAddress:
        """The way to its boards, whatever they run. Raises BoardError, and is then away for a
        while."""
        with self._lock:
            if self._address is None:
                with self.away_where_lost():
                    self._address = self._stack.enter_context(self._opens())
            return self._address

    def is_lost(self) -> None:
        """No board could be had: nobody is told of this class for a while."""
        self._away_until = self._monotonic() + _AWAY_SECONDS

    @contextmanager
    def away_where_lost(self) -> Iterator[None]:
        """Is away for a while where a BoardError ends the block."""
        try:
            yield
        except BoardError:
            self.is_lost()
            raise

    def close(self) -> None:
        """Ends what was started for it."""
        with self._lock:
            self._address = None
            self._stack.close()

    @property
    def _told(self) -> dict[str, object]:
        return {"board_class": self.name}

    def _is_away(self) -> bool:
        return self._away_until is not None and self._monotonic() < self._away_until


def board_classes(
    named: Sequence[str], tracker: str | None, *, cores: int | None = None
) -> tuple[BoardClass, ...]:
    """The classes that `--boards` names: `CLASS@HOST:PORT`, or `CLASS` at `tracker`; `local` for
    this machine and `emulated-aarch64` need none. Without any: this machine, and the emulated board
    where its parts are installed.

    Raises UsageError for what does not fit together.
    """
    if not named:
        if tracker is not None:
            raise UsageError("--tracker needs --boards CLASS: the boards to use at that tracker")
        named = [LOCAL_BOARD_CLASS, *([EMULATED_CLASS] if is_installed() else [])]
    classes = [_board_class(text, tracker, cores) for text in named]
    twice = sorted({one.name for one in classes if _names(classes).count(one.name) > 1})
    if twice:
        raise UsageError(f"--boards names {', '.join(twice)} more than once; name each once")
    return tuple(classes)


def _names(classes: Iterable[BoardClass]) -> list[str]:
    return [one.name for one in classes]


def _board_class(text: str, tracker: str | None, cores: int | None) -> BoardClass:
    name, at, place = text.partition("@")
    if not name or (at and not place):
        raise UsageError(f"--boards takes CLASS or CLASS@HOST:PORT, not {text!r}")
    check_own_class(name)
    if at or (tracker is not None and name not in (LOCAL_BOARD_CLASS, EMULATED_CLASS)):
        return _remote(name, parse_tracker(place or tracker or ""))
    if name == LOCAL_BOARD_CLASS:
        return _local(cores or len(os.sched_getaffinity(0)))
    if name == EMULATED_CLASS:
        return _emulated()
    raise UsageError(
        f"--boards {name} needs a tracker: give --boards {name}@HOST:PORT, or --tracker HOST:PORT"
    )


def _local(cores: int) -> BoardClass:
    board = ServedBoard(LOCAL_BOARD_CLASS, socket.gethostname(), emulated=False, cores=cores)

    def misfit(target: Target) -> str | None:
        if runs_here(target):
            return None
        return (
            f"the board class {LOCAL_BOARD_CLASS!r} is a machine that cannot run code for "
            f"{target.mtriple}; submit the job for a board class that can"
        )

    return BoardClass(
        LOCAL_BOARD_CLASS,
        lambda: local_board(cores),
        lambda: [board],
        misfit,
        on_this_machine=True,
        opens_boards=True,
    )


def _emulated() -> BoardClass:
    board = ServedBoard(EMULATED_CLASS, "qemu-max", emulated=True, cores=EMULATED_CORES)

    def misfit(target: Target) -> str | None:
        if target.mtriple.startswith("aarch64"):
            return None
        return f"the emulated board is an AArch64 one, and cannot run {target}"

    return BoardClass(
        EMULATED_CLASS,
        emulated_board,
        lambda: [board],
        misfit,
        on_this_machine=True,
        opens_boards=True,
    )


def _remote(name: str, tracker: TrackerAddress) -> BoardClass:
    boards = _RemoteBoards(name, tracker)
    return BoardClass(
        name,
        lambda: remote_board(name, tracker),
        boards.look,
        boards.misfit,
        on_this_machine=not is_emulated(name) and _are_here(name, tracker),
        needs=needed_features,
    )


def _are_here(name: str, tracker: TrackerAddress) -> bool:
    # A tracker that is elsewhere is not waited for: boards of this machine are at its own.
    if not is_this_machine(tracker.host):
        return False
    try:
        registered = query_tracker(tracker, _TRACKER_SECONDS).boards_of(name)
    except BoardError:
        return False
    return any(is_here(board, tracker) for board in registered)


class _RemoteBoards:
    """The boards of a class at a tracker, as it was asked last."""

    def __init__(self, name: str, tracker: TrackerAddress) -> None:
        self._name = name
        self._tracker = tracker
        self._registered: tuple[RegisteredBoard, ...] = ()

    def look(self) -> list[ServedBoard]:
        self._registered = query_tracker(self._tracker, _TRACKER_SECONDS).boards_of(self._name)
        return [
            ServedBoard(
                self._name,
                board.label,
                emulated=is_emulated(self._name),
                cores=board.cores or 0,
                state={"serving": board.serving},
            )
            for board in self._registered
        ]

    def misfit(self, target: Target) -> str | None:
        return why_none_fits(target, self._name, self._tracker, self._registered)
