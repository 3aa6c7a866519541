"""Workers that come and go, and the jobs that wait for them, whichever database is behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cache_samples import BOARD
from lease_contract import LEASE, Clock, WallClock
from processes import start
from queue_samples import SERVED, claim_split, recover, split, submit
from store_contract import StoreFixtures

from tunebook.cache.queue.fleet import ServedBoard, ServedFleet
from tunebook.cache.queue.submissions import JobState
from tunebook.cache.storage.moments import now
from tunebook.cache.store import Store


class FleetContract(StoreFixtures):
    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def observer(self, url: str, clock: Clock) -> Iterator[Store]:
        """The coordinator's store, whose clock the test moves."""
        with Store.open(url, lease_seconds=LEASE, monotonic=clock) as store:
            yield store

    def test_a_worker_is_there_with_what_it_announced(self, store: Store) -> None:
        board = ServedBoard("rpi5", "board-2", emulated=False, cores=4, state={"load": 0.5})
        store.fleet.announce("worker", [SERVED, board], "measuring", "tvm-0.27.0")
        (worker,) = store.fleet.workers()
        assert (worker.name, worker.boards) == ("worker", (SERVED, board))
        assert (worker.activity, worker.compiler) == ("measuring", "tvm-0.27.0")
        assert worker.started_at.tzinfo is not None
        served = [serves(store, name) for name in (BOARD, "rpi5", "rpi6")]
        assert served == [True, True, False]

    def test_boards_are_counted_once_and_classes_that_wait_have_none(self, store: Store) -> None:
        other = ServedBoard("rpi5", "board-2", emulated=False, cores=4)
        store.fleet.announce("first", [SERVED, other])
        store.fleet.announce("second", [SERVED])
        assert store.fleet.served() == ServedFleet(2, {BOARD: 1, "rpi5": 1})
        store.fleet.leave("first")
        store.fleet.leave("second")
        submit(store)
        assert store.fleet.served() == ServedFleet(0, {BOARD: 0})

    def test_what_is_announced_last_holds(self, store: Store) -> None:
        store.fleet.announce("worker", [SERVED], "idle")
        (before,) = store.fleet.workers()
        store.fleet.announce("worker", [], "looking for its board")
        (after,) = store.fleet.workers()
        assert (after.boards, after.activity) == ((), "looking for its board")
        assert after.started_at == before.started_at
        assert not serves(store, BOARD)

    def test_a_worker_that_leaves_serves_nobody(self, store: Store) -> None:
        store.fleet.announce("first", [SERVED])
        store.fleet.announce("second", [])
        store.fleet.leave("first")
        assert [worker.name for worker in store.fleet.workers()] == ["second"]
        assert not serves(store, BOARD)

    def test_a_worker_is_dead_when_its_beat_stands_still(
        self, store: Store, observer: Store, clock: Clock, wall: WallClock
    ) -> None:
        store.fleet.announce("worker", [SERVED])
        assert serves(observer, BOARD)
        wall.step(1)
        assert serves(observer, BOARD)
        clock.now += LEASE + 1
        assert not serves(observer, BOARD)
        assert observer.fleet.workers() == ()
        store.fleet.announce("worker", [SERVED])
        assert serves(observer, BOARD)

    def test_a_dead_worker_is_forgotten_by_whoever_coordinates(
        self, store: Store, observer: Store, clock: Clock
    ) -> None:
        store.fleet.announce("worker", [SERVED])
        observer.queue.tidy(now())
        assert serves(store, BOARD)
        clock.now += LEASE + 1
        observer.queue.tidy(now())
        assert store.fleet.workers() == ()

    def test_a_worker_that_beats_is_alive(
        self, store: Store, observer: Store, clock: Clock
    ) -> None:
        for _ in range(5):
            store.fleet.announce("worker", [SERVED])
            assert serves(observer, BOARD)
            clock.now += LEASE - 1
        assert serves(observer, BOARD)

    def test_a_worker_whose_process_is_gone_is_dead_at_once(self, store: Store, url: str) -> None:
        victim = start("announce", url)
        assert victim.stdout is not None
        victim.stdout.readline()
        assert serves(store, BOARD)
        victim.kill()
        victim.wait()
        victim.stdout.close()
        assert not serves(store, BOARD)

    def test_a_worker_that_is_started_again_under_its_name_is_there_since_then(
        self, store: Store, url: str
    ) -> None:
        first = start("announce", url)
        assert first.stdout is not None
        first.stdout.readline()
        (before,) = store.fleet.workers()
        first.kill()
        first.wait()
        first.stdout.close()
        store.fleet.announce(before.name, [SERVED])
        (after,) = store.fleet.workers()
        assert after.started_at > before.started_at

    def test_the_rows_of_dead_workers_are_cleared_away(
        self, store: Store, observer: Store, clock: Clock
    ) -> None:
        store.fleet.announce("dead", [SERVED])
        observer.fleet.announce("first", [])
        clock.now += LEASE + 1
        observer.fleet.announce("first", [])
        observer.fleet.announce("second", [])
        assert [worker.name for worker in store.fleet.workers()] == ["first", "second"]

    @pytest.fixture
    def wall(self, monkeypatch: pytest.MonkeyPatch) -> WallClock:
        return WallClock(monkeypatch)


class WaitingContract(StoreFixtures):
    def test_a_job_waits_for_a_board_class_that_nobody_serves_and_starts_when_one_does(
        self, store: Store
    ) -> None:
        job = submit(store)
        waiting = store.queue.job(job)
        assert (waiting.state, waiting.waiting_for) == (JobState.WAITING, BOARD)
        assert BOARD in waiting.reason
        store.fleet.announce("worker", [SERVED])
        started = store.queue.job(job)
        assert (started.state, started.waiting_for, started.reason) == (JobState.QUEUED, "", "")

    def test_a_job_that_is_worked_on_does_not_wait(self, store: Store) -> None:
        job = submit(store)
        claim_split(store)
        assert store.queue.job(job).state is JobState.QUEUED

    def test_a_job_waits_in_each_of_its_stages(self, store: Store) -> None:
        job = submit(store)
        split(store)
        assert store.queue.job(job).state is JobState.WAITING
        recover(store)
        assert store.queue.job(job).state is JobState.WAITING
        store.fleet.announce("worker", [SERVED])
        assert store.queue.job(job).state is JobState.RUNNING

    def test_waiting_and_going_on_are_told_once_each(self, store: Store) -> None:
        job = submit(store)
        for _ in range(2):
            store.queue.note_waiting()
        store.fleet.announce("worker", [SERVED])
        for _ in range(2):
            store.queue.note_waiting()
        events = store.queue.events(job)
        assert [event.data["state"] for event in events] == ["queued", "waiting", "queued"]
        assert events[1].data["waiting_for"] == BOARD

    def test_a_job_that_ended_while_it_waited_tells_why_it_ended(self, store: Store) -> None:
        job = submit(store)
        store.queue.note_waiting()
        assert store.queue.cancel(job).reason == "cancelled"
        store.queue.note_waiting()
        assert store.queue.events(job)[-1].data["state"] == "cancelled"


def serves(store: Store, board_class: str) -> bool:
    """Whether a worker that is alive has a board of this class."""
    boards = (board for worker in store.fleet.workers() for board in worker.boards)
    return any(board.board_class == board_class for board in boards)


class PresenceContract(FleetContract, WaitingContract):
    """All of the above."""
