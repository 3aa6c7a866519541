"""Kernels are measured on a board, and whatever goes wrong there costs the one trial."""

from __future__ import annotations

import os
import platform
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from process_looks import measuring_processes
from trial_samples import elementwise, matmul
from tvm import te

from tunebook.cache.errors import BoardError, TunebookError
from tunebook.cache.records import ErrorClass
from tunebook.tuner.splitting.program import Program
from tunebook.tuner.trials import board_holder
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.peak import measure_peak
from tunebook.tuner.trials.trials import BoardAddress, BuiltLibrary

CORES = 2
# What a board calls itself unless it is told otherwise.
NAME = socket.gethostname()
FOREVER = 'for (;;) __asm__ volatile("")'
UNDEFINED = "ud2" if platform.machine() == "x86_64" else "udf #0"
CRASHES = [
    pytest.param("*(volatile int*)0 = 1", "SIGSEGV", id="writes to nowhere"),
    pytest.param("abort()", "SIGABRT", id="aborts"),
    pytest.param(
        f'__asm__ volatile("{UNDEFINED}")', "SIGILL", id="an instruction the board has not"
    ),
    pytest.param("exit(3)", "exit code 3", id="leaves"),
]


@pytest.fixture(scope="module")
def program() -> Program:
    return elementwise(lambda x: x + 1.0)


@pytest.fixture
def normal(build: Callable[..., BuiltLibrary], program: Program) -> BuiltLibrary:
    return build(program)


class TestATrial:
    def test_gives_the_time_of_each_repeat(self, measurer, build, matmul_program) -> None:
        measured = measurer.measure(build(matmul_program), matmul_program)
        assert measured.error is None, measured.error_text
        assert measured.run_seconds
        # One that was disturbed takes as long as that lasted.
        assert all(1e-6 < seconds < measured.board_seconds for seconds in measured.run_seconds)

    def test_gives_the_time_of_each_of_so_many_runs(self, measurer, build, matmul_program) -> None:
        measured = measurer.measure_single_runs(build(matmul_program), matmul_program, 3)
        assert measured.error is None, measured.error_text
        assert len(measured.run_seconds) == 3

    def test_says_which_board_had_it_and_in_which_state(
        self, measurer, board, normal, program
    ) -> None:
        measured = measurer.measure(normal, program)
        assert measured.board == board.registered().name
        assert measured.board_class == board.address.board_class
        assert not measured.emulated
        assert "load" in measured.board_state

    def test_says_what_it_cost_the_board(self, measurer, normal, program) -> None:
        measured = measurer.measure(normal, program)
        assert measured.board_seconds > sum(measured.run_seconds)

    def test_of_an_emulated_board_is_marked_so(self, board, normal, program) -> None:
        address = replace(board.address, emulated=True)
        with Measurer(address, num_cores=CORES) as measurer:
            assert measurer.measure(normal, program).emulated

    def test_of_a_scheduled_program_is_measured_like_any_other(
        self, measurer, build, matmul_program, matmul_candidates
    ) -> None:
        library = build(matmul_program, matmul_candidates[0])
        assert measurer.measure(library, matmul_program).seconds is not None

    def test_lets_a_kernel_have_the_threads_it_was_told(self, board, kernel, program) -> None:
        counts = kernel("int n; __TVMBackendParallelLaunch(task, &n, 0); *written = n; (void)read")
        one = kernel("*written = 1")
        with Measurer(board.address, num_cores=1, run_timeout=60) as measurer:
            first = measurer.verify(counts, one, _scalar())
        with Measurer(board.address, num_cores=CORES, run_timeout=60) as measurer:
            second = measurer.verify(counts, one, _scalar())
        assert first.agrees, first.text
        assert second.agrees == (len(os.sched_getaffinity(0)) == 1), second.text

    def test_of_two_programs_in_turn_gets_each_its_own_inputs(
        self, measurer, build, normal, program, matmul_program
    ) -> None:
        product = build(matmul_program)
        for _ in range(2):
            assert measurer.measure(normal, program).error is None
            assert measurer.measure(product, matmul_program).error is None


class TestAFault:
    @pytest.mark.parametrize(("body", "said"), CRASHES)
    def test_of_a_crashing_kernel_is_run(
        self, measurer, kernel, normal, program, body, said
    ) -> None:
        measured = measurer.measure(kernel(body), program)
        assert measured.error is ErrorClass.RUN
        assert measured.board == NAME
        assert said in measured.error_text
        assert measured.board_seconds > 0
        assert measurer.measure(normal, program).error is None

    def test_of_a_kernel_that_refuses_its_arguments_is_run(
        self, measurer, build, normal, program
    ) -> None:
        measured = measurer.measure(build(matmul()), program)
        assert measured.error is ErrorClass.RUN
        assert measured.board == NAME
        assert measured.error_text and "\n" not in measured.error_text
        assert measurer.measure(normal, program).error is None

    def test_of_a_kernel_without_end_is_run_timeout(
        self, measurer, soon_over, kernel, normal, program, monkeypatch
    ) -> None:
        # Only its board ends it.
        monkeypatch.setattr(board_holder, "_GRACE_SECONDS", 60.0)
        measured = soon_over(0.5).measure(kernel(FOREVER), program)
        assert measured.error is ErrorClass.RUN_TIMEOUT
        assert measured.board == NAME
        assert measured.board_seconds >= 0.5
        assert measurer.measure(normal, program).error is None

    def test_of_a_board_that_is_killed_is_board_lost(
        self, measurer, board, endless, normal, program
    ) -> None:
        with endless.once_it_runs(_signal_agent(board, signal.SIGKILL)):
            measured = measurer.measure(endless.library, program)
        assert measured.error is ErrorClass.BOARD_LOST
        assert measured.board == NAME
        assert measurer.measure(normal, program).error is None

    def test_of_a_board_without_room_for_a_kernel_is_board_lost(
        self, measurer, board, normal, program
    ) -> None:
        """What its system says is of a limit, and not of a disk; a full one is made less easily."""
        server, endless = board.registered().pid, resource.RLIM_INFINITY
        resource.prlimit(server, resource.RLIMIT_FSIZE, (0, endless))
        try:
            measured = measurer.measure(normal, program)
        finally:
            resource.prlimit(server, resource.RLIMIT_FSIZE, (endless, endless))
        assert measured.error is ErrorClass.BOARD_LOST
        assert "File too large" in measured.error_text
        assert measurer.measure(normal, program).error is None

    @pytest.mark.slow
    def test_of_a_board_that_freezes_is_board_lost_and_never_a_hang(
        self, measurer, soon_over, board, kernel, normal, program
    ) -> None:
        let_go_on = _signal_agent(board, signal.SIGCONT)
        # The session's process is the board's child, which nobody ends when its time is over.
        freezing = kernel(f"kill(getppid(), SIGSTOP); {FOREVER}")
        measured = soon_over(5).measure(freezing, program)
        let_go_on()
        assert measured.error is ErrorClass.BOARD_LOST
        assert measured.board == NAME
        assert measurer.measure(normal, program).error is None

    def test_of_the_measuring_process_between_two_trials_costs_nothing(
        self, measurer, normal, program
    ) -> None:
        measurer.measure(normal, program)
        (process,) = measuring_processes()
        process.kill()
        assert measurer.measure(normal, program).error is None

    def test_of_the_measuring_process_in_a_trial_costs_that_one(
        self, measurer, board, endless, normal, program
    ) -> None:
        with endless.once_it_runs(lambda: measuring_processes()[0].kill()):
            measured = measurer.measure(endless.library, program)
        assert measured.error is ErrorClass.BOARD_LOST
        assert measured.board == NAME
        assert "SIGKILL" in measured.error_text
        assert measurer.measure(normal, program).error is None

    def test_of_a_kernel_that_does_nothing_is_implausible(
        self, measurer, pool, host, kernel, build, matmul_program, matmul_candidates, eventually
    ) -> None:
        measurer.peak = measure_peak(pool, measurer, host)
        nothing, tried = kernel(""), []

        def is_implausible() -> bool:
            tried.append(measurer.measure(nothing, matmul_program))
            return tried[-1].error is ErrorClass.IMPLAUSIBLE

        eventually(is_implausible, "it was measured while nothing else held it up")
        measured = tried[-1]
        assert measured.board == NAME
        assert "peak" in measured.error_text
        assert measured.seconds is None
        scheduled = build(matmul_program, matmul_candidates[0])
        assert measurer.measure(scheduled, matmul_program).error is None


class TestVerification:
    @pytest.mark.parametrize("number", range(3))
    def test_agrees_for_schedules_of_the_same_program(
        self, measurer, build, matmul_program, matmul_candidates, number
    ) -> None:
        candidate = build(matmul_program, matmul_candidates[number])
        verdict = measurer.verify(candidate, build(matmul_program), matmul_program)
        assert verdict.agrees, verdict.text
        assert verdict.error is None
        assert "tolerance" in verdict.text

    def test_finds_the_library_of_another_program(self, measurer, build, normal, program) -> None:
        other = build(elementwise(lambda x: x - 1.0))
        verdict = measurer.verify(other, normal, program)
        assert not verdict.agrees
        assert verdict.error is ErrorClass.WRONG_OUTPUT
        assert "differs" in verdict.text
        assert verdict.board == NAME

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param("", id="nothing"),
            pytest.param("for (int i = 0; i < 63; i++) written[i] = read[i] + 1", id="all but one"),
        ],
    )
    def test_finds_what_was_never_written(self, measurer, kernel, normal, program, body) -> None:
        # The reference ran first and left its result in memory of the same size.
        verdict = measurer.verify(kernel(body), normal, program)
        assert verdict.error is ErrorClass.WRONG_OUTPUT

    def test_finds_what_was_never_written_where_the_program_computes_no_number(
        self, measurer, kernel, build
    ) -> None:
        program = elementwise(lambda x: te.if_then_else(x > -0.8, x, te.sqrt(x)))
        numbers_only = "for (int i = 0; i < 64; i++) if (read[i] > -0.8f) written[i] = read[i]"
        reference = build(program)
        assert measurer.verify(build(program), reference, program).agrees
        verdict = measurer.verify(kernel(numbers_only), reference, program)
        assert verdict.error is ErrorClass.WRONG_OUTPUT
        assert "should be nan" in verdict.text

    def test_is_not_misled_by_a_kernel_that_wrote_over_its_inputs(
        self, measurer, kernel, normal, program
    ) -> None:
        measurer.verify(kernel("for (int i = 0; i < 64; i++) read[i] = 7"), normal, program)
        assert measurer.verify(normal, normal, program).agrees

    def test_of_roots_of_negative_numbers_compares_numbers(self, measurer, build) -> None:
        root = elementwise(lambda x: te.sqrt(x))
        half = build(elementwise(lambda x: te.sqrt(x) + te.if_then_else(x > 0, 1.0, 0.0)))
        verdict = measurer.verify(half, build(root), root)
        assert verdict.error is ErrorClass.WRONG_OUTPUT

    def test_of_a_program_that_never_computes_a_number_is_not_made(self, measurer, build) -> None:
        program = elementwise(lambda x: te.sqrt(-1.0 - x * x))
        verdict = measurer.verify(build(program), build(program), program)
        assert not verdict.agrees
        assert verdict.error is None
        assert "no finite number" in verdict.text

    @pytest.mark.parametrize(("body", "said"), CRASHES[:1])
    def test_of_a_crashing_kernel_tells_the_crash(
        self, measurer, kernel, normal, program, body, said
    ) -> None:
        verdict = measurer.verify(kernel(body), normal, program)
        assert verdict.error is ErrorClass.RUN
        assert said in verdict.text
        assert measurer.verify(normal, normal, program).agrees

    def test_says_when_it_is_the_unscheduled_program_that_fails(
        self, measurer, kernel, normal, program
    ) -> None:
        verdict = measurer.verify(normal, kernel("abort()"), program)
        assert not verdict.agrees
        assert verdict.error is None
        assert "unscheduled" in verdict.text


class TestLoading:
    def test_a_candidate_that_is_measured_and_verified_is_loaded_once(
        self, measurer, counted_kernel, normal, program
    ) -> None:
        candidate, loads = counted_kernel()
        assert measurer.measure(candidate, program).error is None
        assert measurer.verify(candidate, normal, program).agrees
        assert loads() == 1

    def test_an_unscheduled_program_is_loaded_once_for_all_candidates(
        self, measurer, counted_kernel, normal, build, program
    ) -> None:
        reference, loads = counted_kernel()
        assert measurer.measure(reference, program).error is None
        for candidate in (normal, build(program)):
            assert measurer.verify(candidate, reference, program).agrees
        assert loads() == 1

    def test_in_another_session_its_outputs_are_known_still(
        self, measurer, counted_kernel, kernel, normal, program
    ) -> None:
        reference, loads = counted_kernel()
        assert measurer.verify(normal, reference, program).agrees
        assert measurer.measure(kernel("abort()"), program).error is ErrorClass.RUN
        assert measurer.verify(normal, reference, program).agrees
        assert loads() == 1

    def test_in_another_session_a_library_is_loaded_again(
        self, measurer, counted_kernel, kernel, program
    ) -> None:
        candidate, loads = counted_kernel()
        assert measurer.measure(candidate, program).error is None
        assert measurer.measure(kernel("abort()"), program).error is ErrorClass.RUN
        assert measurer.measure(candidate, program).error is None
        assert loads() == 2


class TestWithoutABoard:
    def test_none_registered_is_said_with_what_there_is(self, board, normal, program) -> None:
        address = replace(board.address, board_class="rpi4")
        text = _refusal(address, normal, program)
        where = f"{address.tracker_host}:{address.tracker_port}"
        assert "'rpi4'" in text and where in text
        assert f"registered there: {board.address.board_class}" in text
        assert "--boards" in text

    def test_all_busy_is_said(self, board, normal, program) -> None:
        with Measurer(board.address, num_cores=CORES, run_timeout=300) as other:
            other.measure(normal, program)  # and keeps the board
            text = _refusal(board.address, normal, program)
        assert "1 registered, all busy" in text
        assert "--board-timeout" in text

    def test_one_that_was_given_back_is_anothers_at_once(self, board, normal, program) -> None:
        with (
            Measurer(board.address, num_cores=CORES, run_timeout=300) as first,
            Measurer(board.address, num_cores=CORES, board_timeout=60) as second,
        ):
            assert first.measure(normal, program).error is None
            first.give_board_back()
            assert second.measure(normal, program).error is None
            second.give_board_back()
            assert first.measure(normal, program).error is None

    def test_no_tracker_is_said(self, normal, program) -> None:
        text = _refusal(BoardAddress("127.0.0.1", 1, "rpi4"), normal, program)
        assert "127.0.0.1:1" in text
        assert "--tracker" in text

    def test_a_board_that_comes_in_time_is_used(self, board, measurer, normal, program) -> None:
        measurer.measure(normal, program)
        threading.Timer(1.0, measurer.close).start()
        with Measurer(board.address, num_cores=CORES, board_timeout=60) as second:
            assert second.measure(normal, program).error is None

    def test_waiting_for_one_costs_no_board_seconds(self, board, kernel, normal, program) -> None:
        released: list[float] = []

        def release() -> None:
            released.append(time.monotonic())
            first.close()

        with (
            Measurer(board.address, num_cores=CORES, run_timeout=300) as first,
            Measurer(board.address, num_cores=CORES) as second,
        ):
            # Its process runs and its session is gone, so that it asks for a board at once.
            assert second.measure(kernel("abort()"), program).error is ErrorClass.RUN
            first.measure(normal, program)  # and keeps the board
            threading.Timer(1.0, release).start()
            measured = second.measure(normal, program)
            ended = time.monotonic()
        assert measured.error is None, measured.error_text
        assert measured.board_seconds <= ended - released[0]


class TestClosing:
    def test_leaves_no_process_and_gives_the_board_back(
        self, board, normal, program, eventually
    ) -> None:
        with Measurer(board.address, num_cores=CORES, run_timeout=300) as measurer:
            measurer.measure(normal, program)
            eventually(lambda: board.registered().serving, "the board is held")
        assert measuring_processes() == []
        eventually(lambda: not board.registered().serving, "the board was given back")

    def test_ends_the_trial_that_another_thread_waits_for(self, board, endless, program) -> None:
        measurer = Measurer(board.address, num_cores=CORES, run_timeout=300)
        with endless.once_it_runs(measurer.close):
            measured = measurer.measure(endless.library, program)
        assert measured.error is ErrorClass.BOARD_LOST
        with pytest.raises(TunebookError, match="closed"):
            measurer.measure(endless.library, program)

    def test_twice_does_no_harm(self, board) -> None:
        measurer = Measurer(board.address, num_cores=CORES)
        measurer.close()
        measurer.close()


def _scalar() -> Program:
    return elementwise(lambda x: x, size=1)


def _refusal(address: BoardAddress, library: BuiltLibrary, program: Program) -> str:
    with (
        Measurer(address, num_cores=CORES, board_timeout=1) as measurer,
        pytest.raises(BoardError) as raised,
    ):
        measurer.measure(library, program)
    text = str(raised.value)
    assert "\n" not in text
    return text


@pytest.fixture
def counted_kernel(kernel: Callable[..., BuiltLibrary], tmp_path: Path) -> Callable[[], Any]:
    """A kernel that does what `program` does, and how often boards have loaded it."""

    def make() -> tuple[BuiltLibrary, Callable[[], int]]:
        loads = tmp_path / "loads"
        append = f'FILE* loads = fopen("{loads}", "a"); fputs("!", loads); fclose(loads)'
        compute = "for (int i = 0; i < 64; i++) written[i] = read[i] + 1"
        return kernel(compute, when_loaded=append), lambda: len(loads.read_text())

    return make


@pytest.fixture
def endless(kernel: Callable[..., BuiltLibrary], tmp_path: Path) -> _Endless:
    begun = tmp_path / "begun"
    return _Endless(kernel(f'fclose(fopen("{begun}", "w")); {FOREVER}'), begun)


@dataclass(frozen=True)
class _Endless:
    """A kernel without end, which leaves a file when it begins."""

    library: BuiltLibrary
    begun: Path

    @contextmanager
    def once_it_runs(self, action: Callable[[], None]) -> Iterator[None]:
        """Does something as soon as the kernel, which the block starts, is running."""
        done = threading.Event()

        def wait_and_act() -> None:
            while not done.wait(0.02):
                if self.begun.exists():
                    action()
                    return

        thread = threading.Thread(target=wait_and_act)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def _signal_agent(board: Any, number: int) -> Callable[[], None]:
    agent = board.registered().pid
    assert agent is not None
    return lambda: os.kill(agent, number)
