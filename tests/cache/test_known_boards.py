"""Every board that anybody knows: agents, workers and references told of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from tunebook.cache.board_names import quarantine_class
from tunebook.cache.boards.board_reports import BoardReport, BoardState
from tunebook.cache.boards.known_boards import KnownBoard, Standing, known_boards
from tunebook.cache.queue.fleet import ServedBoard, WorkerPresence

NOW = datetime(2026, 11, 30, tzinfo=timezone.utc)
FREE = BoardReport(registered=True, cores=4)
BUSY = replace(FREE, serving=True)
GONE = replace(FREE, registered=False, fault="it crashed")
UNKNOWN = BoardState("rpi4", "b")


def worker(name: str, *boards: ServedBoard) -> WorkerPresence:
    return WorkerPresence(name, "lab", boards, "idle", "tvm-0.27.0+llvm-22", NOW)


def served(board_class: str = "rpi4", name: str = "b", **state: object) -> ServedBoard:
    return ServedBoard(board_class, name, emulated=False, cores=2, state=state)


def only(*found: KnownBoard) -> KnownBoard:
    (board,) = found
    return board


@pytest.mark.parametrize(
    ("changed", "boards", "standing"),
    [
        ({"report": FREE}, [], Standing.THERE),
        ({"report": FREE}, [served()], Standing.THERE),
        ({"report": BUSY}, [], Standing.SERVING),
        ({"report": GONE}, [], Standing.AWAY),
        ({"report": BUSY, "silent": True}, [served()], Standing.SILENT),
        ({"report": FREE, "quarantine": "it drifted"}, [], Standing.QUARANTINED),
        ({"report": FREE, "quarantine": "it drifted", "silent": True}, [], Standing.QUARANTINED),
        ({}, [], Standing.AWAY),
        ({}, [served()], Standing.THERE),
        ({}, [served(serving=True)], Standing.SERVING),
        ({"quarantine": "it drifted"}, [served()], Standing.QUARANTINED),
    ],
)
def test_one_word_says_how_a_board_is_there(
    changed: dict[str, object], boards: list[ServedBoard], standing: Standing
) -> None:
    state = replace(UNKNOWN, **changed)  # type: ignore[arg-type]
    assert only(*known_boards([state], [worker("w", *boards)])).standing is standing


def test_a_board_that_only_workers_know_is_told_too() -> None:
    board = only(*known_boards([], [worker("w", served(temperature_c=50.0))]))
    assert (board.board_class, board.name, board.state) == ("rpi4", "b", None)
    assert (board.cores, board.said) == (2, {"temperature_c": 50.0})
    assert board.standing is Standing.THERE


def test_a_board_is_one_however_many_workers_have_it() -> None:
    workers = [worker("first", served()), worker("second", served(), served(name="c"))]
    both, single = known_boards([replace(UNKNOWN, report=FREE)], workers)
    assert [one.worker.name for one in both.holders] == ["first", "second"]
    assert [one.worker.name for one in single.holders] == ["second"]
    assert both.cores == 4


def test_a_board_that_stands_under_the_key_of_quarantine_is_of_its_own_class() -> None:
    state = replace(UNKNOWN, quarantine="it drifted")
    board = only(*known_boards([state], [worker("w", served(quarantine_class("rpi4")))]))
    assert (board.board_class, len(board.holders)) == ("rpi4", 1)


def test_cores_that_a_worker_does_not_know_are_told_by_nobody() -> None:
    unknown = ServedBoard("rpi4", "b", emulated=False, cores=0)
    assert only(*known_boards([], [worker("w", unknown)])).cores is None


def test_boards_come_by_class_and_name() -> None:
    workers = [worker("w", served("rpi5", "a"), served("rpi4", "z"), served("rpi4", "a"))]
    assert [(one.board_class, one.name) for one in known_boards([], workers)] == [
        ("rpi4", "a"),
        ("rpi4", "z"),
        ("rpi5", "a"),
    ]
