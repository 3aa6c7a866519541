"""An AArch64 board without hardware runs true AArch64 code."""

from __future__ import annotations

import shutil
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import te
from tvm.support import cc

from tunebook.cache.errors import BoardError
from tunebook.workers.boards import emulated_sysroot as sysroot_module
from tunebook.workers.boards.emulated_board import emulated_board
from tunebook.workers.boards.emulated_sysroot import QEMU, SYSROOT_VARIABLE, emulated_sysroot
from tunebook.workers.boards.guest_server import EMULATED_CLASS

AARCH64_COMPILER = "aarch64-linux-gnu-g++"
# Assembled whatever the compiler's own target; a core without it raises SIGILL.
SDOT = 'asm volatile(".arch armv8.2-a+dotprod\\n sdot v0.4s, v1.16b, v2.16b" ::: "v0"); number++'

needs_qemu = pytest.mark.skipif(
    shutil.which(QEMU) is None, reason=f"no {QEMU}: apt-get install qemu-user-static"
)
needs_aarch64_compiler = pytest.mark.skipif(
    shutil.which(AARCH64_COMPILER) is None,
    reason=f"no {AARCH64_COMPILER}: apt-get install g++-aarch64-linux-gnu",
)
emulated = [needs_qemu, needs_aarch64_compiler, pytest.mark.emulated, pytest.mark.slow]


@pytest.fixture(scope="module")
def arm(in_use):
    with emulated_board() as address:
        yield in_use(address)


class TestOnTheBoard:
    pytestmark = emulated

    def test_it_is_registered_as_emulated(self, arm) -> None:
        assert arm.address.emulated
        assert not arm.address.shares_host
        assert arm.address.board_class == EMULATED_CLASS
        assert arm.registered().name == "qemu-max"

    def test_a_cross_linked_kernel_gives_the_right_numbers(self, arm, tmp_path) -> None:
        library = tmp_path / "matmul.so"
        _matmul(64).export_library(str(library), fcompile=cc.cross_compiler(AARCH64_COMPILER))
        left, right = np.random.default_rng(0).random((2, 64, 64), dtype="float32")

        session = arm.session()
        session.upload(str(library))
        multiply = session.load_module(library.name)["main"]
        device = session.cpu()
        arguments = [tvm.runtime.tensor(a, device) for a in (left, right, np.zeros_like(left))]
        multiply(*arguments)
        np.testing.assert_allclose(arguments[-1].numpy(), left @ right, rtol=1e-5)

    def test_a_crash_costs_one_session(self, arm, kernel) -> None:
        with pytest.raises(Exception, match="SIGSEGV"):
            arm.call(kernel("*(volatile int*)8 = 1", AARCH64_COMPILER), 1)
        assert arm.call(kernel("number++", AARCH64_COMPILER), 41) == 42

    def test_an_endless_kernel_ends_at_the_sessions_limit(self, arm, kernel) -> None:
        with pytest.raises(Exception, match="time limit"):
            arm.call(kernel("for (volatile int i = 0;; i++)", AARCH64_COMPILER), 1, limit=1)
        assert arm.call(kernel("number++", AARCH64_COMPILER), 41) == 42

    def test_a_core_with_dot_products_runs_them(self, arm, kernel) -> None:
        assert arm.call(kernel(SDOT, AARCH64_COMPILER), 41) == 42

    def test_a_core_without_dot_products_refuses_them_and_lives(self, kernel, in_use) -> None:
        with emulated_board(cpu="cortex-a72") as address:
            old_core = in_use(address)
            with pytest.raises(Exception, match="SIGILL"):
                old_core.call(kernel(SDOT, AARCH64_COMPILER), 41)
            assert old_core.call(kernel("number++", AARCH64_COMPILER), 41) == 42

    def test_an_unknown_core_is_an_error_in_words(self) -> None:
        with pytest.raises(BoardError, match="cortex-a999"), emulated_board(cpu="cortex-a999"):
            raise AssertionError("emulated a core that does not exist")


def _matmul(size: int) -> tvm.runtime.Module:
    left, right = (te.placeholder((size, size), name=name) for name in ("left", "right"))
    k = te.reduce_axis((0, size))
    product = te.compute((size, size), lambda i, j: te.sum(left[i, k] * right[k, j], axis=k))
    target = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76"}
    return tvm.compile(te.create_prim_func([left, right, product]), target=target)


class TestItsSysroot:
    def test_a_machine_without_qemu_is_told_what_to_install(self, monkeypatch) -> None:
        monkeypatch.setenv("PATH", "/nonexistent")
        with pytest.raises(BoardError, match="apt-get install qemu-user-static"):
            emulated_sysroot()

    @pytest.fixture
    def empty_cache(self, tmp_path, monkeypatch) -> Path:
        """A user's cache folder, and a PATH of which the test decides what is on it."""
        monkeypatch.delenv(SYSROOT_VARIABLE, raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        _program(tmp_path / "bin" / QEMU, "exit 1")
        return tmp_path / "cache" / "tunebook"

    def test_a_machine_without_apt_is_told_so(self, empty_cache) -> None:
        with pytest.raises(BoardError, match=f"apt-get is missing.*{SYSROOT_VARIABLE}"):
            emulated_sysroot()

    def test_a_failed_download_is_told_and_leaves_nothing_behind(self, empty_cache, tmp_path):
        # A fake: an archive that cannot be reached is not to be had on demand.
        _program(tmp_path / "bin" / "apt-get", "echo 'E: Unable to connect' >&2; exit 100")
        with pytest.raises(BoardError, match="Unable to connect"):
            emulated_sysroot()
        assert [path for path in empty_cache.iterdir() if path.is_dir()] == []

    def test_a_damaged_sysroot_is_made_anew(self, empty_cache, tmp_path) -> None:
        # A fake: making it is seen from the outside only by what it calls.
        _program(tmp_path / "bin" / "apt-get", "echo 'E: asked for packages' >&2; exit 100")
        root = _sysroot(empty_cache / sysroot_module._root_name())
        sysroot_module._write_stamp(root)
        assert emulated_sysroot().root == root
        (root / "usr/bin/python3.11").write_text("damaged")
        with pytest.raises(BoardError, match="asked for packages"):
            emulated_sysroot()

    def test_a_named_sysroot_is_used_as_it_is(self, empty_cache, tmp_path, monkeypatch) -> None:
        root = _sysroot(tmp_path / "mine")
        monkeypatch.setenv(SYSROOT_VARIABLE, str(root))
        sysroot = emulated_sysroot()
        assert (sysroot.root, sysroot.python) == (root, root / "usr/bin/python3.11")

    @pytest.mark.parametrize(
        ("lost", "words"),
        [("usr/bin/python3.11", r"no usr/bin/python3\.N"), ("opt/tvm", "the same TVM")],
    )
    def test_a_named_sysroot_that_does_not_fit_is_refused(
        self, empty_cache, tmp_path, monkeypatch, lost, words
    ) -> None:
        root = _sysroot(tmp_path / "mine")
        (root / lost).rename(tmp_path / "lost")
        monkeypatch.setenv(SYSROOT_VARIABLE, str(root))
        with pytest.raises(BoardError, match=f"{SYSROOT_VARIABLE}.*{words}"):
            emulated_sysroot()


def _program(path: Path, script: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def _sysroot(root: Path) -> Path:
    """The outline of a sysroot: what is looked at before anything is started in it."""
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/python3.11").touch()
    for package in ("apache-tvm", "apache-tvm-ffi"):
        name = f"{package.replace('-', '_')}-{metadata.version(package)}.dist-info"
        (root / "opt/tvm" / name).mkdir(parents=True)
    return root
