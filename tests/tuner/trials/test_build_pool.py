"""Builds happen in processes that live through the run and are killed one by one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tvm
from trial_samples import SIZE, candidates_of, dense, elementwise
from tvm.s_tir import meta_schedule as ms

from tunebook.cache.errors import TunebookError
from tunebook.cache.records import Candidate, ErrorClass
from tunebook.tuner.child_process import ChildProcess
from tunebook.tuner.llvm_targets import tvm_target
from tunebook.tuner.splitting.program import Program
from tunebook.tuner.trials.build_pool import BuildPool
from tunebook.tuner.trials.trials import BuildFailure, BuildRequest, BuiltLibrary

A76 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=1"
A72 = A76.replace("a76", "a72")
# Unrolled as it says, LLVM works on this for hours.
ENDLESS = """
@T.prim_func
def main(a: T.Buffer((400000,), "float32"), c: T.Buffer((400000,), "float32")):
    T.func_attr({"tirx.noalias": True, "global_symbol": "main"})
    for i in T.unroll(400000):
        c[i] = T.exp(a[i]) + T.float32(1)
"""


@pytest.fixture(scope="module")
def endless() -> str:
    module = tvm.ir.IRModule({"main": tvm.script.from_source(ENDLESS)})
    return str(tvm.ir.save_json(module))


def built(pool: BuildPool, request: BuildRequest) -> BuiltLibrary:
    outcome = pool.submit(request).result()
    assert isinstance(outcome, BuiltLibrary), outcome
    return outcome


def failed(pool: BuildPool, request: BuildRequest) -> BuildFailure:
    outcome = pool.submit(request).result()
    assert isinstance(outcome, BuildFailure), outcome
    return outcome


def refusal(pool: BuildPool, request: BuildRequest) -> str:
    with pytest.raises(TunebookError) as raised:
        pool.submit(request).result()
    assert "\n" not in str(raised.value)
    return str(raised.value)


@contextmanager
def time_limit(pool: BuildPool, seconds: float) -> Iterator[None]:
    """What is submitted and built in the block may take so long, and all else as long as before."""
    before, pool._time_limit = pool._time_limit, seconds
    yield
    pool._time_limit = before


@pytest.fixture
def handed_out(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that were given something, one for each time."""
    processes: list[int] = []
    send = ChildProcess.send

    def send_and_note(process: ChildProcess, message: Any) -> None:
        send(process, message)
        processes.append(process.pid)

    monkeypatch.setattr(ChildProcess, "send", send_and_note)
    return processes


@pytest.fixture
def request_of(matmul_program: Program, host: str) -> Callable[[Candidate], BuildRequest]:
    def make(candidate: Candidate) -> BuildRequest:
        return BuildRequest(matmul_program.tir, host, candidate.trace, candidate.module_hash)

    return make


@pytest.fixture
def plain_request(matmul_program: Program, host: str) -> BuildRequest:
    return BuildRequest(matmul_program.tir, host, None)


class TestLibraries:
    def test_an_unscheduled_program_becomes_a_library_that_runs(self, pool, plain_request) -> None:
        assert_multiplies(built(pool, plain_request))

    def test_a_scheduled_program_becomes_a_library_that_runs(
        self, pool, request_of, matmul_candidates
    ) -> None:
        library = built(pool, request_of(matmul_candidates[0]))
        assert library.module_hash == matmul_candidates[0].module_hash
        assert_multiplies(library)

    def test_its_features_are_those_that_the_cost_model_extracts(
        self, pool, request_of, matmul_candidates, matmul_program, host
    ) -> None:
        library = built(pool, request_of(matmul_candidates[0]))
        schedule = tvm.s_tir.Schedule(tvm.ir.load_json(matmul_program.tir))
        trace = json.loads(matmul_candidates[0].trace)
        tvm.s_tir.Trace.apply_json_to_schedule(trace, schedule)
        context = ms.TuneContext(mod=schedule.mod, target=tvm_target(host), num_threads=1)
        (expected,) = ms.feature_extractor.PerStoreFeature().extract_from(
            context, [ms.MeasureCandidate(schedule, [])]
        )
        assert library.features is not None
        found = np.frombuffer(library.features, "<f4").reshape(-1, library.feature_columns)
        np.testing.assert_array_equal(found, expected.numpy().astype("<f4"))

    def test_every_library_has_a_file_of_its_own(self, pool, plain_request) -> None:
        assert built(pool, plain_request).path != built(pool, plain_request).path


class TestFailures:
    def test_a_trace_that_schedules_to_another_module_names_both(
        self, pool, request_of, matmul_candidates
    ) -> None:
        request = replace(request_of(matmul_candidates[0]), module_hash="0123456789abcdef")
        failure = failed(pool, request)
        assert failure.error is ErrorClass.BUILD
        assert "0123456789abcdef" in failure.text
        assert matmul_candidates[0].module_hash in failure.text

    def test_a_trace_of_another_program_is_a_build_failure(
        self, pool, host, matmul_candidates
    ) -> None:
        other = elementwise(lambda x: x + 1)
        failure = failed(pool, BuildRequest(other.tir, host, matmul_candidates[0].trace))
        assert failure.error is ErrorClass.BUILD
        assert "\n" not in failure.text and failure.text

    def test_a_trace_that_carries_code_is_refused_by_name(self, pool, matmul_program, host) -> None:
        trace = json.dumps(
            [
                [
                    ["GetSBlock", [], ["product", "main"], ["b0"]],
                    ["Annotate", ["b0", '"module asm"'], ["pragma_import_llvm"], []],
                ],
                [],
            ]
        )
        failure = failed(pool, BuildRequest(matmul_program.tir, host, trace))
        assert failure.error is ErrorClass.BUILD
        assert "pragma_import_llvm" in failure.text

    def test_code_generation_that_aborts_is_a_build_failure_with_its_text(
        self, pool, plain_request
    ) -> None:
        program = dense()
        candidate = candidates_of(program, A76, count=1)[0]
        built(pool, BuildRequest(program.tir, A76, candidate.trace))
        failure = failed(pool, BuildRequest(program.tir, A72, candidate.trace))
        assert failure.error is ErrorClass.BUILD
        assert "SIGABRT" in failure.text
        assert "LLVM ERROR: Cannot select" in failure.text
        assert "SDOT" in failure.text
        assert_multiplies(built(pool, plain_request))

    def test_a_compile_without_end_is_stopped_and_its_process_replaced(
        self, tmp_path, endless, host, plain_request, is_gone
    ) -> None:
        with BuildPool(1, 60, tmp_path) as pool:
            built(pool, plain_request)
            (before,) = pool.process_ids
            with time_limit(pool, 3):
                failure = failed(pool, BuildRequest(endless, host, None))
            assert failure.error is ErrorClass.COMPILE_TIMEOUT
            assert "3 s" in failure.text
            assert is_gone(before)
            assert_multiplies(built(pool, plain_request))

    def test_a_build_whose_process_is_killed_gets_another_and_fails_the_second_time(
        self, tmp_path, endless, host, plain_request, eventually, handed_out
    ) -> None:
        with BuildPool(1, 600, tmp_path) as pool:
            built(pool, plain_request)
            (first,) = pool.process_ids
            future = pool.submit(BuildRequest(endless, host, None))
            # Killed before it has the build, it would not be the one that this costs.
            eventually(lambda: handed_out == [first, first], "the build began")
            os.kill(first, signal.SIGKILL)
            eventually(lambda: len(handed_out) == 3, "the build began again")
            assert not future.done()
            second = handed_out[2]
            assert second != first
            os.kill(second, signal.SIGKILL)
            failure = future.result()
            assert isinstance(failure, BuildFailure)
            assert failure.error is ErrorClass.BUILD
            assert "SIGKILL" in failure.text
            assert_multiplies(built(pool, plain_request))

    def test_a_process_that_dies_idle_costs_nothing(
        self, tmp_path, plain_request, eventually
    ) -> None:
        with BuildPool(1, 60, tmp_path) as pool:
            built(pool, plain_request)
            (before,) = pool.process_ids
            os.kill(before, signal.SIGKILL)
            eventually(lambda: before not in pool.process_ids, "another process took its place")
            assert_multiplies(built(pool, plain_request))


class TestAMachineThatCannotBuild:
    """Nothing of this is a candidate's fault, so none may be charged for it."""

    def test_a_linker_that_fails_is_an_error_and_no_failed_build(
        self, tmp_path, monkeypatch, plain_request
    ) -> None:
        linker = tmp_path / "tools" / "cc"
        linker.parent.mkdir()
        linker.write_text("#!/bin/sh\necho 'cannot find crti.o' >&2\nexit 1\n")
        linker.chmod(0o755)
        monkeypatch.setenv("PATH", str(linker.parent), prepend=os.pathsep)
        with BuildPool(1, 60, tmp_path / "libraries") as pool:
            text = refusal(pool, plain_request)
        assert "cannot find crti.o" in text

    def test_a_missing_linker_is_an_error_that_says_what_to_install(
        self, tmp_path, monkeypatch, plain_request
    ) -> None:
        """A fake: the build processes are told that ziglang is not there."""
        hide = "import importlib.util as u; f = u.find_spec\n"
        hide += "u.find_spec = lambda n, *a: None if n == 'ziglang' else f(n, *a)\n"
        (tmp_path / "sitecustomize.py").write_text(hide)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.setenv("PATH", str(tmp_path))
        with BuildPool(1, 60, tmp_path / "libraries") as pool:
            assert "ziglang" in refusal(pool, plain_request)

    def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(
        self, tmp_path, plain_request
    ) -> None:
        folder = tmp_path / "libraries"
        with BuildPool(1, 60, folder) as pool:
            built(pool, plain_request)
            shutil.rmtree(folder)
            assert str(folder) in refusal(pool, plain_request)

    def test_a_compiler_that_aborts_for_want_of_space_is_an_error(
        self, tmp_path, monkeypatch, plain_request
    ) -> None:
        """A fake: instead of LLVM, which no test can make find a full disk, a linker aborts."""
        linker = tmp_path / "tools" / "cc"
        linker.parent.mkdir()
        said = "LLVM ERROR: IO failure on output stream: No space left on device"
        linker.write_text(f"#!/bin/sh\necho '{said}' >>/proc/$PPID/fd/2\nkill -ABRT $PPID\n")
        linker.chmod(0o755)
        monkeypatch.setenv("PATH", str(linker.parent), prepend=os.pathsep)
        folder = tmp_path / "libraries"
        with BuildPool(1, 60, folder) as pool:
            text = refusal(pool, plain_request)
        assert str(folder) in text and "No space left on device" in text


class TestProcesses:
    def test_one_that_is_killed_leaves_no_temporary_files(
        self, tmp_path, monkeypatch, endless, host, plain_request
    ) -> None:
        elsewhere, folder = tmp_path / "temporary", tmp_path / "libraries"
        elsewhere.mkdir()
        monkeypatch.setenv("TMPDIR", str(elsewhere))
        with BuildPool(1, 60, folder) as pool:
            library = built(pool, plain_request)
            with time_limit(pool, 3):
                failed(pool, BuildRequest(endless, host, None))
        assert list(folder.iterdir()) == [library.path]
        assert list(elsewhere.iterdir()) == []

    def test_they_live_through_the_run(self, tmp_path, plain_request) -> None:
        with BuildPool(2, 60, tmp_path) as pool:
            before = set(pool.process_ids)
            outcomes = [pool.submit(plain_request) for _ in range(6)]
            assert all(isinstance(one.result(), BuiltLibrary) for one in outcomes)
            assert set(pool.process_ids) == before

    def test_closing_ends_all_of_them_and_what_is_not_built(
        self, tmp_path, endless, host, plain_request, is_gone
    ) -> None:
        pool = BuildPool(2, 60, tmp_path)
        built(pool, plain_request)
        pending = [pool.submit(BuildRequest(endless, host, None)) for _ in range(4)]
        processes = pool.process_ids
        pool.close()
        assert all(is_gone(one) for one in processes)
        for future in pending:
            with pytest.raises(TunebookError, match="closed"):
                future.result(timeout=0)
        with pytest.raises(TunebookError, match="closed"):
            pool.submit(plain_request)

    def test_they_end_with_their_parent_even_amid_a_compile(
        self, user_of_a_pool, eventually, is_gone
    ) -> None:
        parent, processes = user_of_a_pool
        os.kill(parent.pid, signal.SIGKILL)
        for one in processes:
            eventually(lambda one=one: is_gone(one), "the build process ended")

    def test_an_interrupt_from_the_terminal_spills_no_tracebacks(
        self, user_of_a_pool, eventually, is_gone
    ) -> None:
        parent, processes = user_of_a_pool
        os.killpg(parent.pid, signal.SIGINT)
        _, errors = parent.communicate(timeout=60)
        assert errors == ""
        assert all(is_gone(one) for one in processes)

    def test_one_that_cannot_start_says_why(self, tmp_path, monkeypatch, plain_request) -> None:
        """A fake: the installed packages are told to be others to the processes only."""
        script = """
            from importlib import metadata
            true_version = metadata.version
            metadata.version = lambda name: "0.1.15" if "ffi" in name else true_version(name)
        """
        (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(script))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        with (
            BuildPool(1, 60, tmp_path) as pool,
            pytest.raises(TunebookError, match=r"apache-tvm-ffi 0\.1\.15 is installed"),
        ):
            pool.submit(plain_request).result()


USER = """
import sys
from pathlib import Path
from tunebook.tuner.trials.build_pool import BuildPool
from tunebook.tuner.trials.trials import BuildRequest

folder, endless, plain, target = sys.argv[1:]
try:
    with BuildPool(1, 600, Path(folder)) as pool:
        pool.submit(BuildRequest(Path(plain).read_text(), target, None)).result()
        future = pool.submit(BuildRequest(Path(endless).read_text(), target, None))
        while not future.running():
            pass
        print(*pool.process_ids, flush=True)
        future.result()
except KeyboardInterrupt:
    pass
"""


@pytest.fixture
def user_of_a_pool(
    tmp_path: Path, endless: str, matmul_program: Program, host: str
) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """Another program amid an endless compile, in a process group of its own."""
    (tmp_path / "endless.json").write_text(endless)
    (tmp_path / "plain.json").write_text(matmul_program.tir)
    files = [str(tmp_path / "endless.json"), str(tmp_path / "plain.json")]
    parent = subprocess.Popen(
        [sys.executable, "-c", USER, str(tmp_path), *files, host],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Where the tests run in the background, SIGINT is ignored and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        start_new_session=True,
    )
    assert parent.stdout is not None
    processes = [int(word) for word in parent.stdout.readline().split()]
    assert processes, parent.communicate()[1]
    assert all(psutil.pid_exists(one) for one in processes)
    yield parent, processes
    parent.kill()
    parent.communicate()


def assert_multiplies(library: BuiltLibrary) -> None:
    left, right = np.random.default_rng(0).random((2, SIZE, SIZE), dtype="float32")
    arguments = [tvm.runtime.tensor(one) for one in (left, right, np.zeros_like(left))]
    tvm.runtime.load_module(str(library.path))["main"](*arguments)
    np.testing.assert_allclose(arguments[-1].numpy(), left @ right, rtol=1e-4)
