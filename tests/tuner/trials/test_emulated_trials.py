"""Cross-compiled kernels are measured and verified on a true AArch64 instruction set."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from trial_samples import candidates_of, dense, matmul, unpacked_dense

from tunebook.cache.records import ErrorClass
from tunebook.tuner.splitting.program import Program
from tunebook.tuner.trials.build_pool import BuildPool
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.timing import INSTRUCTIONS
from tunebook.tuner.trials.trials import BoardAddress, BuildRequest, BuiltLibrary

pytestmark = [pytest.mark.slow, pytest.mark.emulated]

A76 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=1"
AARCH64_COMPILER = "aarch64-linux-gnu-gcc"
A72 = A76.replace("a76", "a72")
FP16 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -mattr=+fullfp16 -num-cores=1"


@pytest.mark.parametrize(
    ("program", "target"),
    [
        pytest.param(matmul(), A76, id="float32"),
        pytest.param(matmul("float16", "float16"), FP16, id="float16"),
        pytest.param(dense(), A76, id="int8"),
    ],
)
def test_schedules_agree_with_the_unscheduled_program(
    arm_board: BoardAddress, build: Callable[..., BuiltLibrary], program: Program, target: str
) -> None:
    (candidate,) = candidates_of(program, target, count=1)
    library = build(program, candidate, target)
    with Measurer(arm_board, num_cores=1, run_timeout=120) as measurer:
        verdict = measurer.verify(library, build(program, target=target), program)
        measured = measurer.measure(library, program)
    assert verdict.agrees, verdict.text
    assert measured.error is None, measured.error_text
    assert measured.emulated
    assert ("sdot" in candidate.trace) == (program.buffers[0].dtype == "int8")


def test_schedules_that_tvm_gets_wrong_are_found_out(
    arm_board: BoardAddress, pool: BuildPool, build: Callable[..., BuiltLibrary]
) -> None:
    """TVM 0.27 tensorises rows of weights as if they were packed, and says nothing."""
    program = unpacked_dense()
    traces = [one.trace for one in candidates_of(program, A76, count=8) if "sdot" in one.trace]
    requests = [BuildRequest(program.tir, A76, trace) for trace in traces]
    libraries = [pool.submit(request).result() for request in requests]
    # Most of them do not even compile.
    wrong = next(one for one in libraries if isinstance(one, BuiltLibrary))
    with Measurer(arm_board, num_cores=1, run_timeout=120) as measurer:
        verdict = measurer.verify(wrong, build(program, target=A76), program)
    assert verdict.error is ErrorClass.WRONG_OUTPUT
    assert "differs in 75.00% of its elements" in verdict.text


def test_an_instruction_that_the_board_has_not_is_a_run_failure_and_the_board_lives(
    a72_board: BoardAddress, build: Callable[..., BuiltLibrary]
) -> None:
    program = dense()
    reference = build(program, target=A72)
    library = build(program, candidates_of(program, A76, count=1)[0], A76)
    with Measurer(a72_board, num_cores=1, run_timeout=120) as measurer:
        measured = measurer.measure(library, program)
        assert measured.error is ErrorClass.RUN
        assert "SIGILL" in measured.error_text
        verdict = measurer.verify(library, reference, program)
        assert verdict.error is ErrorClass.RUN
        assert measurer.measure(reference, program).error is None


def test_a_time_there_is_the_instructions_of_one_call(
    arm_board: BoardAddress, kernel: Callable[..., BuiltLibrary], matmul_program: Program
) -> None:
    loop = 'long n = 100000; asm volatile("1: subs %0, %0, #1\\n b.ne 1b" : "+r"(n) :: "cc")'
    library = kernel(loop, compiler=AARCH64_COMPILER)
    with Measurer(arm_board, num_cores=1, run_timeout=120) as measurer:
        measured = measurer.measure(library, matmul_program)
    assert measured.error is None, measured.error_text
    if measured.board_state.get("unit") != INSTRUCTIONS:
        pytest.skip("this machine's emulator counts nothing: apt-get install qemu-user gcc")
    # One nanosecond each; the kernel's own beginning and end beside its loop.
    assert measured.seconds == pytest.approx(200e-6, abs=0.1e-6)


def test_instructions_are_the_same_from_one_session_to_the_next(
    arm_board: BoardAddress, build: Callable[..., BuiltLibrary], matmul_program: Program
) -> None:
    (candidate,) = candidates_of(matmul_program, A76, count=1)
    library = build(matmul_program, candidate, A76)
    seconds = []
    for _ in range(2):
        with Measurer(arm_board, num_cores=1, run_timeout=120) as measurer:
            measured = measurer.measure(library, matmul_program)
        assert measured.error is None, measured.error_text
        if measured.board_state.get("unit") != INSTRUCTIONS:
            pytest.skip("this machine's emulator counts nothing: apt-get install qemu-user gcc")
        seconds.append(measured.seconds)
    assert seconds[0] == pytest.approx(seconds[1], rel=1e-3)
