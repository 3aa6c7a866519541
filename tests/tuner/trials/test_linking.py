"""Libraries are linked on this machine, for whichever architecture the target names."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tvm
from trial_samples import elementwise
from tvm import relax

from tunebook.cache.targets import ARCHITECTURES
from tunebook.tuner.llvm_targets import tvm_target
from tunebook.tuner.trials import linking
from tunebook.tuner.trials.linking import LinkError, linker_for

AARCH64 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=1"
ARM = "llvm -mtriple=armv7l-linux-gnueabihf -mcpu=cortex-a9 -mattr=+neon -num-cores=1"
# What an ELF file says its machine is.
MACHINES = {"x86_64": 62, "aarch64": 183, "arm": 40}


@pytest.fixture
def only_ziglang(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No compiler and no binutils on the PATH."""
    monkeypatch.setattr(shutil, "which", lambda name: None)
    linking._linker.cache_clear()
    yield
    linking._linker.cache_clear()


def exported(target: str, path: Path) -> Path:
    """A kernel that calls libm, linked for a target."""
    program = elementwise(lambda x: tvm.te.exp(x) + tvm.te.sin(x) + tvm.te.tanh(x))
    module = tvm.tirx.build(tvm.ir.load_json(program.tir), target=tvm_target(target))
    module.export_library(str(path), fcompile=linker_for(target))
    return path


def machine_of(library: Path) -> int:
    header = library.read_bytes()[:20]
    assert header[:4] == b"\x7fELF"
    return int(struct.unpack("<H", header[18:20])[0])


def assert_runs(library: Path) -> None:
    data = np.linspace(-1, 1, 64, dtype="float32")
    arguments = [tvm.runtime.tensor(one) for one in (data, np.zeros_like(data))]
    tvm.runtime.load_module(str(library))["main"](*arguments)
    expected = np.exp(data) + np.sin(data) + np.tanh(data)
    np.testing.assert_allclose(arguments[1].numpy(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("target", "machine"),
    [
        pytest.param(AARCH64, "aarch64", id="aarch64"),
        pytest.param(ARM, "arm", id="armv7l"),
    ],
)
class TestForAnotherArchitecture:
    def test_whatever_tool_is_there_links(self, target, machine, tmp_path) -> None:
        assert machine_of(exported(target, tmp_path / "kernel.so")) == MACHINES[machine]

    def test_ziglang_links_where_there_is_no_other_tool(
        self, only_ziglang, target, machine, tmp_path
    ) -> None:
        library = exported(target, tmp_path / "kernel.so")
        assert machine_of(library) == MACHINES[machine]
        assert b"libm.so.6\0" in library.read_bytes()


class TestForThisMachine:
    def test_a_library_that_calls_libm_loads_and_runs(self, host, tmp_path) -> None:
        assert_runs(exported(host, tmp_path / "kernel.so"))

    def test_so_does_one_that_ziglang_linked(self, only_ziglang, host, tmp_path) -> None:
        assert_runs(exported(host, tmp_path / "kernel.so"))

    def test_it_names_the_libraries_it_needs(self, host, tmp_path) -> None:
        content = exported(host, tmp_path / "kernel.so").read_bytes()
        assert b"libm.so.6\0" in content and b"libc.so.6\0" in content

    def test_a_function_of_libm_has_the_version_that_programs_of_today_get(
        self, host, tmp_path
    ) -> None:
        """Without one the board would take the oldest, which is slower."""
        library = exported(host, tmp_path / "kernel.so")
        symbols = subprocess.run(["nm", "-D", library], stdout=subprocess.PIPE, check=True).stdout
        assert re.search(rb"\bU expf@GLIBC_2\.27\n", symbols)

    @pytest.mark.parametrize("tools", ["any", "ziglang"])
    def test_it_goes_on_where_temporary_files_were_tidied_away(
        self, tools, host, request, monkeypatch, tmp_path
    ) -> None:
        if tools == "ziglang":
            request.getfixturevalue("only_ziglang")
        linking._linker.cache_clear()
        temporary = tmp_path / "temporary"
        for name in ("one", "other"):
            temporary.mkdir()
            with monkeypatch.context() as patch:
                patch.setattr(tempfile, "tempdir", str(temporary))
                assert_runs(exported(host, tmp_path / f"{name}.so"))
            shutil.rmtree(temporary)

    def test_a_whole_model_loads_and_runs(self, host, tmp_path) -> None:
        library = export_model(host, tmp_path / "model.so")
        machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
        assert_model_runs(machine, tvm.cpu())


@pytest.mark.slow
@pytest.mark.emulated
@pytest.mark.parametrize("tools", ["any", "ziglang"])
def test_a_whole_model_runs_on_an_aarch64_board(arm_session, tools, request, tmp_path) -> None:
    if tools == "ziglang":
        request.getfixturevalue("only_ziglang")
    library = export_model(AARCH64, tmp_path / f"{tools}.so")
    arm_session.upload(str(library))
    device = arm_session.cpu()
    machine = relax.VirtualMachine(arm_session.load_module(library.name), device)
    assert_model_runs(machine, device)


def export_model(target: str, path: Path) -> Path:
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((4, 8), "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            squashed = builder.emit(relax.op.tanh(relax.op.exp(data)))
            result = builder.emit_output(relax.op.nn.softmax(squashed))
        builder.emit_func_output(result)
    compiled = relax.build(builder.finalize(), target=tvm_target(target))
    compiled.export_library(str(path), fcompile=linker_for(target))
    return path


def assert_model_runs(machine: relax.VirtualMachine, device: tvm.runtime.Device) -> None:
    data = np.random.default_rng(0).uniform(-1, 1, (4, 8)).astype("float32")
    found = machine["main"](tvm.runtime.tensor(data, device)).numpy()
    squashed = np.exp(np.tanh(np.exp(data)))
    expected = squashed / squashed.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


class TestWithoutALinker:
    def test_it_says_what_to_install(self, only_ziglang, monkeypatch) -> None:
        monkeypatch.setattr(linking.importlib.util, "find_spec", lambda name: None)
        with pytest.raises(LinkError, match=r"aarch64-linux-gnu-gcc.*ziglang"):
            linker_for(AARCH64)

    @pytest.mark.parametrize("name", ["riscv64", "i686", "thumbv8", "armfoo", "armv6l", "AARCH64"])
    def test_an_unknown_architecture_is_named(self, name) -> None:
        with pytest.raises(LinkError, match=f"'{name}'.*known: .*aarch64") as raised:
            linker_for(f"llvm -mtriple={name}-linux-gnu -num-cores=1")
        assert "\n" not in str(raised.value)

    @pytest.mark.parametrize("name", ARCHITECTURES)
    def test_every_known_architecture_has_a_linker(self, name) -> None:
        assert callable(linker_for(f"llvm -mtriple={name}-linux-gnu -num-cores=1"))

    def test_a_target_without_a_triple_is_an_error(self) -> None:
        with pytest.raises(LinkError, match="-mtriple"):
            linker_for("llvm -num-cores=1")

    def test_what_a_linker_says_is_in_the_error(self, host, tmp_path) -> None:
        broken = tmp_path / "broken.o"
        broken.write_text("not an object")
        with pytest.raises(LinkError, match=r"broken\.o"):
            linker_for(host)(str(tmp_path / "kernel.so"), [str(broken)])
