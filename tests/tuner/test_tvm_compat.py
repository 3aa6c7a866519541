"""The work-arounds for the pinned TVM."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tunebook.cache.errors import ExitCode, IncompatibleError
from tunebook.tuner.tvm_compat import (
    attempt,
    check_versions,
    silent_native_stderr,
    size_thread_pool,
)

# Records what the intrinsics register. The modules for GPUs and DSPs are left out of the genuine
# import: with them it takes 39 seconds.
_RECORD = """
import sys, types
import tvm
import tvm_ffi
from tvm.s_tir import TensorIntrin

registered = {}
genuine = TensorIntrin.register
def record(name, desc, impl, override=False):
    registered[name] = [tvm_ffi.structural_hash(desc), tvm_ffi.structural_hash(impl)]
    return genuine(name, desc, impl, override)
TensorIntrin.register = staticmethod(record)
"""
_GENUINE = """
for other in ("cuda", "rocm", "hexagon", "riscv_cpu"):
    name = f"tvm.s_tir.tensor_intrin.{other}"
    sys.modules[name] = types.ModuleType(name)
import tvm.s_tir.tensor_intrin
"""
_OURS = """
from tunebook.tuner.tvm_compat import load_cpu_intrinsics
load_cpu_intrinsics()
load_cpu_intrinsics()
import tvm.s_tir.tensor_intrin
from tvm.s_tir.tensor_intrin.arm_cpu import ARM_DOT_4x4_i8_SDOT_INTRIN
assert "tvm.s_tir.tensor_intrin.cuda" not in sys.modules
"""
_PRINT = """
import json
print(json.dumps(registered, sort_keys=True))
"""


def _run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


def _pretend_installed(folder: Path, distribution: str, version: str) -> None:
    info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
    )


def test_the_installed_versions_are_accepted() -> None:
    check_versions()


@pytest.mark.parametrize(
    ("distribution", "version"),
    [
        ("apache-tvm-ffi", "0.1.15.post2"),
        ("apache-tvm-ffi", "0.1.140"),
        ("apache-tvm", "0.26.0"),
    ],
)
def test_a_wrong_version_is_named_in_one_line_before_tvm_is_imported(
    tmp_path: Path, distribution: str, version: str
) -> None:
    # A fake: the package's metadata says another version, TVM itself stays as it is.
    _pretend_installed(tmp_path, distribution, version)
    code = (
        "import sys\n"
        "try:\n"
        "    import tunebook.tuner.splitting.program\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, int(error.exit_code), 'tvm' in sys.modules, error)\n"
    )
    done = _run(code, PYTHONPATH=str(tmp_path))
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"IncompatibleError {int(ExitCode.INCOMPATIBLE)} False ")
    assert f"{distribution} {version}" in line
    assert 'pip install "apache-tvm==0.27.0.post1" "apache-tvm-ffi==0.1.14.post1"' in line
    assert done.stderr == ""


def test_a_missing_tvm_matters_only_to_those_who_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # A fake: uninstalling TVM for a test would break the others.
    def none_installed(distribution: str) -> str:
        raise metadata.PackageNotFoundError(distribution)

    monkeypatch.setattr(metadata, "version", none_installed)
    check_versions(required=False)
    with pytest.raises(IncompatibleError, match="apache-tvm is not installed"):
        check_versions()


def test_the_cpu_intrinsics_are_those_that_tvms_own_import_registers() -> None:
    genuine = _run(_RECORD + _GENUINE + _PRINT)
    ours = _run(_RECORD + _OURS + _PRINT)
    assert genuine.returncode == 0, genuine.stderr
    assert ours.returncode == 0, ours.stderr
    assert "dot_4x4_i8i8s32_sdot" in ours.stdout
    assert "dot_16x4_vnni" in ours.stdout
    assert ours.stdout == genuine.stdout


def test_a_tune_context_finds_the_intrinsics_loaded() -> None:
    code = """
import sys
import tvm
from tvm.s_tir import meta_schedule as ms
from tunebook.tuner.tvm_compat import load_cpu_intrinsics
load_cpu_intrinsics()
ms.TuneContext()
assert "tvm.s_tir.tensor_intrin.cuda" not in sys.modules
"""
    done = _run(code)
    assert done.returncode == 0, done.stderr


def test_what_native_code_writes_to_stderr_is_dropped_only_meanwhile(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with silent_native_stderr():
        os.write(2, b"dropped")
    os.write(2, b"kept")
    assert capfd.readouterr().err == "kept"


def test_stderr_comes_back_after_an_exception(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="inside"), silent_native_stderr():
        raise ValueError("inside")
    os.write(2, b"kept")
    assert capfd.readouterr().err == "kept"


def test_an_attempt_gives_the_result_or_one_line_of_what_failed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def failing() -> None:
        os.write(2, b"native noise\n")
        raise ValueError("first line\nsecond line")

    assert attempt(lambda: "result") == ("result", "")
    assert attempt(failing) == (None, "ValueError: first line second line")
    assert capfd.readouterr().err == ""


def test_sizing_the_thread_pool_leaves_this_thread_on_its_cores() -> None:
    before = os.sched_getaffinity(0)
    size_thread_pool(1)
    assert os.sched_getaffinity(0) == before
