"""Kernels and buffers on a board: the same by many calls of TVM's server or by few of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from trial_samples import elementwise, matmul, program_of
from tvm import rpc, te

from tunebook.tuner.trials import board_calls
from tunebook.tuner.trials.board_calls import (
    BoardCalls,
    TunebookServerCalls,
    TvmServerCalls,
    calls_of,
)
from tunebook.tuner.trials.board_trials import BoardTrials
from tunebook.tuner.trials.tensors import random_inputs
from tunebook.tuner.trials.trials import BoardSettings, MeasureJob, SessionOpened, VerifyJob

WAYS = {"few": calls_of, "many": TvmServerCalls}


def settings_of(board: Any) -> BoardSettings:
    return BoardSettings(
        board.address, num_cores=1, board_timeout=60, run_timeout=60, session_seconds=600
    )


@pytest.fixture
def session(board: Any) -> Iterator[Any]:
    tracker = rpc.connect_tracker(board.address.tracker_host, board.address.tracker_port)
    session = tracker.request(board.address.board_class, session_timeout=600)
    yield session
    session.get_function("CloseRPCConnection")()


@pytest.fixture(params=WAYS)
def calls(session: Any, request: pytest.FixtureRequest) -> BoardCalls:
    made = WAYS[request.param](session)
    assert isinstance(made, TunebookServerCalls) == (request.param == "few")
    return made


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64"])
def test_a_kernel_computes_what_its_inputs_say(
    calls: BoardCalls, build: Callable[..., Any], dtype: str
) -> None:
    program = elementwise(lambda x: x + x, dtype)
    library = calls.load(build(program).path, "kernel.so")
    (inputs,) = random_inputs(program)
    (found,) = calls.outputs(library, calls.place("a", program, [inputs]), program)
    assert found.dtype == inputs.dtype
    np.testing.assert_array_equal(found, inputs + inputs)


def test_a_number_has_a_buffer_too(calls: BoardCalls, build: Callable[..., Any]) -> None:
    number = te.placeholder((), "float32", "number")
    program = program_of(number, te.compute((), lambda *_: number() * 3.0, "result"))
    library = calls.load(build(program).path, "kernel.so")
    inputs = [np.array(7.0, "float32")]
    (found,) = calls.outputs(library, calls.place("a", program, inputs), program)
    assert (found.shape, float(found)) == ((), 21.0)


def test_each_repeat_has_its_time(calls: BoardCalls, build: Callable[..., Any]) -> None:
    program = matmul()
    library = calls.load(build(program).path, "kernel.so")
    buffers = calls.place("a", program, random_inputs(program))
    seconds = calls.time(library, buffers, 3, 4)
    assert len(seconds) == 4
    assert all(0 < one < 60 for one in seconds)


def test_buffers_of_one_name_follow_each_other(
    calls: BoardCalls, build: Callable[..., Any]
) -> None:
    program = elementwise(lambda x: x + 1.0)
    library = calls.load(build(program).path, "kernel.so")
    for value in (1.0, 5.0):
        inputs = [np.full(64, value, "float32")]
        (found,) = calls.outputs(library, calls.place("a", program, inputs), program)
        assert set(found) == {value + 1.0}


@pytest.mark.parametrize("most", [1, 100, 256, 300])
def test_what_is_too_large_for_a_call_comes_in_several(
    session: Any, build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Two buffers of 256 bytes, so that a part ends within one, at its end, and in the next."""
    monkeypatch.setattr(board_calls, "_MOST_BYTES", most)
    left, right = (te.placeholder((64,), "float32", name) for name in ("left", "right"))
    program = program_of(left, right, te.compute((64,), lambda i: left[i] - right[i], "result"))
    calls = calls_of(session)
    library = calls.load(build(program).path, "kernel.so")
    inputs = random_inputs(program)
    (found,) = calls.outputs(library, calls.place("a", program, inputs), program)
    assert found.tobytes() == (inputs[0] - inputs[1]).tobytes()


def test_released_buffers_are_gone(session: Any, build: Callable[..., Any]) -> None:
    program = matmul()
    calls = calls_of(session)
    library = calls.load(build(program).path, "kernel.so")
    buffers = calls.place("a", program, random_inputs(program))
    calls.release(buffers)
    with pytest.raises(Exception, match="no buffers are called 'a'"):
        calls.time(library, buffers, 1, 1)


def test_buffers_that_a_kernel_wrote_once_are_gone(session: Any, build: Callable[..., Any]) -> None:
    program = matmul()
    calls = calls_of(session)
    library = calls.load(build(program).path, "kernel.so")
    buffers = calls.place("a", program, random_inputs(program))
    calls.outputs(library, buffers, program)
    with pytest.raises(Exception, match="no buffers are called 'a'"):
        calls.outputs(library, buffers, program)


def test_a_board_without_room_says_so(session: Any) -> None:
    ask = session.get_function("tunebook.board.ask")
    with pytest.raises(Exception, match=r"the board is out of memory \('place'\)"):
        ask("place", "a", f'[[[{2**50}], "uint8", false]]', b"")
    assert calls_of(session).state()["name"]


def test_a_board_server_of_before_names_what_it_lacks(session: Any) -> None:
    ask = session.get_function("tunebook.board.ask")
    with pytest.raises(Exception, match="knows no 'dance'; upgrade it with the workers"):
        ask("dance")


def test_a_server_of_tvms_own_is_used_by_its_own_calls() -> None:
    server = rpc.Server("127.0.0.1", port=9200, port_end=9900, silent=True)
    try:
        session = rpc.connect("127.0.0.1", server.port)
        calls = calls_of(session)
        assert isinstance(calls, TvmServerCalls)
        calls.use_cores(1)
        assert calls.state() == {}
        session.get_function("CloseRPCConnection")()
    finally:
        server.terminate()


class TestInASession:
    """What a trial costs on a far board is what it asks of it."""

    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """What was asked of the board so far."""
        seen: list[str] = []
        make = TunebookServerCalls.__init__

        def made(self: TunebookServerCalls, session: Any, ask: Any) -> None:
            def counted(name: str, *arguments: Any) -> Any:
                seen.append(name)
                return ask(name, *arguments)

            make(self, session, counted)

        monkeypatch.setattr(TunebookServerCalls, "__init__", made)
        return seen

    @pytest.fixture
    def trials(self, board: Any) -> Iterator[BoardTrials]:
        trials = BoardTrials()
        assert isinstance(trials.open(settings_of(board)), SessionOpened)
        yield trials
        trials.give_board_back()

    def test_a_measurement_loads_and_times(
        self, asked: list[str], trials: BoardTrials, board: Any, build: Callable[..., Any]
    ) -> None:
        program = matmul()
        for library in (build(program), build(program)):
            asked.clear()
            trials.carry_out(MeasureJob(settings_of(board), program, library))
            assert set(asked) <= {"place", "load", "time", "state"}
            assert asked.count("load") == asked.count("state") == 1
            assert asked.count("time") <= 3
        assert "place" not in asked  # the buffers are kept

    def test_a_verification_places_and_runs(
        self, asked: list[str], trials: BoardTrials, board: Any, build: Callable[..., Any]
    ) -> None:
        program = matmul()
        job = VerifyJob(settings_of(board), program, build(program), build(program))
        trials.carry_out(job)
        asked.clear()
        trials.carry_out(job)
        assert asked == ["place", "outputs"]
