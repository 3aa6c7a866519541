"""The workbenches that a worker keeps open: one for each target on each class of boards."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field

from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner.trials.board_pool import BoardPool
from tunebook.tuner.trials.measuring import BoardCheck
from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.boards.board_classes import BoardClass
from tunebook.workers.fleet.shared_builds import SharedBuilds
from tunebook.workers.rounds.phase_times import PhaseClock
from tunebook.workers.rounds.proposals import SearchProposer
from tunebook.workers.rounds.round_runner import RoundRunner
from tunebook.workers.rounds.round_watch import RoundWatch
from tunebook.workers.rounds.shared_time import SharedTime
from tunebook.workers.rounds.supply import Supply
from tunebook.workers.rounds.workbench import (
    Workbench,
    WorkerSettings,
    open_board_pool,
    workbench_on,
)

# Of those that nobody uses, so many stay open: each keeps what its search has learnt.
_MOST_OPEN = 3
# A workbench keeps what its search has learnt, and the programs of all tasks it has seen: after so
# many uses it is opened anew, from what is stored.
_MOST_USES = 2000


@dataclass
class OpenWorkbench:
    """A workbench with what searches on it; `place` are its board class and target, `suspects` says
    which records it did not learn from, `users` are the loops that work there now, `uses` how often
    it was taken. One that is `outdated` is taken by nobody any more."""

    bench: Workbench
    runner: RoundRunner
    place: tuple[str, str]
    stack: ExitStack = field(repr=False)
    suspects: int = 0
    users: int = 0
    uses: int = 0
    outdated: bool = False


class OpenWorkbenches:
    """Workbenches of one lane, opened when first needed and closed when others were used since."""

    def __init__(
        self,
        store: Store,
        builds: SharedBuilds,
        settings: WorkerSettings,
        watch: RoundWatch,
        *,
        check: BoardCheck | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        most_uses: int = _MOST_USES,
    ) -> None:
        """`check` is asked about each board on which a session is opened."""
        self._store = store
        self._builds = builds
        self._settings = settings
        self._watch = watch
        self._check = check
        self._monotonic = monotonic
        self._most_uses = most_uses
        self._lock = threading.Lock()
        self._alone = threading.Lock()
        self._open: OrderedDict[tuple[str, str], OpenWorkbench] = OrderedDict()
        self._boards: dict[str, BoardPool] = {}
        self._shared_time = SharedTime(monotonic)
        self.supply = Supply(
            processes=settings.processes,
            batch=settings.batch,
            boards=self._count_boards,
            seconds_on_board=self._seconds_on_board,
        )

    @contextmanager
    def use(self, board_class: BoardClass, target: Target) -> Iterator[OpenWorkbench]:
        """The workbench for a target on boards of a class.

        Raises BoardError when no board can be had, and TunebookError when this machine cannot
        build.
        """
        with self._lock:
            one = self._take(board_class, target)
            one.users += 1
            one.uses += 1
        # A board that was expected elsewhere may turn out to be this machine.
        alone = self._alone if one.bench.board.shares_host else nullcontext()
        try:
            with alone:
                yield one
        finally:
            with self._lock:
                one.users -= 1
                self._close_where_outdated(one)

    def give_boards_back(self) -> None:
        """Lets others have the boards that have nothing to do."""
        for boards in tuple(self._boards.values()):
            boards.give_boards_back()

    def end_at_once(self) -> None:
        """Ends what is measured now; whoever waits for it learns that it was lost. Takes no lock:
        it is for another thread than those that work here."""
        for boards in tuple(self._boards.values()):
            boards.end()

    def close(self) -> None:
        """Closes all."""
        with self._lock:
            while self._open:
                self._open.popitem(last=False)[1].stack.close()
            while self._boards:
                self._boards.popitem()[1].close()

    def _take(self, board_class: BoardClass, target: Target) -> OpenWorkbench:
        place = (board_class.name, str(target))
        one = self._open.get(place)
        suspects = self._store.boards.suspects_revision()
        # A search that has learnt from times which are in doubt by now knows too much.
        if one is not None and (one.suspects != suspects or one.uses >= self._most_uses):
            one.outdated = True
            # Whoever works there still closes it.
            self._open.pop(place)
            self._close_where_outdated(one)
            one = None
        if one is None:
            one = self._open[place] = self._new(board_class, target, suspects)
            self._close_oldest()
        else:
            self._open.move_to_end(place)
        return one

    def _close_oldest(self) -> None:
        unused = [place for place, one in self._open.items() if one.users == 0]
        for place in unused[: max(0, len(self._open) - _MOST_OPEN)]:
            if place != next(reversed(self._open)):
                self._open.pop(place).stack.close()

    def _close_where_outdated(self, one: OpenWorkbench) -> None:
        if one.users == 0 and one.outdated:
            one.stack.close()

    def _new(self, board_class: BoardClass, target: Target, suspects: int) -> OpenWorkbench:
        clock = PhaseClock(self._monotonic)
        board = board_class.open(target)
        boards = self._boards_at(board)
        with ExitStack() as stack:
            bench = stack.enter_context(
                workbench_on(self._builds.pool(), boards, self._store, target, board, clock)
            )
            proposer = SearchProposer.on(bench, self._store, target, self._settings)
            runner = RoundRunner(
                self._store,
                bench,
                proposer,
                self._watch,
                supply=self.supply,
                shared_time=self._shared_time,
            )
            place = (board_class.name, str(target))
            return OpenWorkbench(bench, runner, place, stack.pop_all(), suspects)

    def _boards_at(self, board: BoardAddress) -> BoardPool:
        """One pool a class, whatever the target: each board is held once."""
        boards = self._boards.get(board.board_class)
        if boards is None:
            # An emulated board's times say nothing that could drift.
            check = None if board.emulated else self._check
            boards = open_board_pool(board, self._settings, check)
            self._boards[board.board_class] = boards
        return boards

    def _count_boards(self) -> int:
        return sum(boards.boards for boards in tuple(self._boards.values()))

    def _seconds_on_board(self) -> float | None:
        found = [boards.seconds_per_trial for boards in tuple(self._boards.values())]
        return max((seconds for seconds in found if seconds is not None), default=None)
