"""A machine's processor and state, as its kernel's files tell them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tunebook.tuner.llvm_targets import resolve_target
from tunebook.workers.agent.cpu_names import _AARCH64, _X86_64, x86_64_cpu
from tunebook.workers.agent.machine import Machine, Memory
from tunebook.workers.boards.server.cpu_features import cpu_features
from tunebook.workers.boards.server.machine import machine_triple

AARCH64 = "aarch64-linux-gnu"
SMALL = "CPU implementer\t: 0x41\nCPU part\t: 0xd05\n"
BIG = "CPU implementer\t: 0x41\nCPU part\t: 0xd0b\n"


def test_a_raspberry_pi_is_known_by_its_board_and_cores(made_up: Path) -> None:
    write(made_up, "proc/cpuinfo", "\n".join(f"processor\t: {n}\n{BIG}" for n in range(4)))
    write(made_up, "proc/device-tree/model", "Raspberry Pi 5 Model B Rev 1.0\0")
    machine = Machine(made_up)
    assert machine.cpu_model() == "Raspberry Pi 5 Model B Rev 1.0, 4 x cortex-a76"
    assert machine.mcpu(AARCH64, ()) == "cortex-a76"


@pytest.mark.parametrize("order", [(SMALL, SMALL, BIG), (BIG, SMALL, SMALL)])
def test_of_several_kinds_of_cores_the_strongest_is_named(
    made_up: Path, order: tuple[str, ...]
) -> None:
    write(made_up, "proc/cpuinfo", "\n".join(order))
    for number, core in enumerate(order):
        capacity = 1024 if core == BIG else 530
        write(made_up, f"sys/devices/system/cpu/cpu{number}/cpu_capacity", f"{capacity}\n")
    assert Machine(made_up).mcpu(AARCH64, ()) == "cortex-a76"


def test_a_core_that_is_not_listed_has_no_name(made_up: Path) -> None:
    write(made_up, "proc/cpuinfo", "CPU implementer : 0x41\nCPU part : 0xfff\n")
    assert Machine(made_up).mcpu(AARCH64, ()) == ""
    assert Machine(made_up).mcpu("armv7l-linux-gnueabihf", ()) == ""


@pytest.mark.parametrize("name", sorted({*_AARCH64.values(), *(name for name, _ in _X86_64)}))
def test_llvm_knows_every_processor_that_is_named(name: str) -> None:
    triple = "x86_64-linux-gnu" if name.startswith("x86") else AARCH64
    resolve_target(f"llvm -mtriple={triple} -mcpu={name} -num-cores=1")


def test_an_x86_is_named_by_the_level_that_it_reaches() -> None:
    v2 = {"cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"}
    v3 = v2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}
    levels = [x86_64_cpu(found) for found in ((), v2, v3 - {"fma"}, v3, v3 | {"avx512f"})]
    assert levels == ["x86-64", "x86-64-v2", "x86-64-v2", "x86-64-v3", "x86-64-v3"]


def test_speed_and_heat_are_those_of_the_fastest_core_and_the_hottest_zone(made_up: Path) -> None:
    for number, (speed, governor) in enumerate(
        [(1_500_000, "schedutil"), (2_400_000, "performance")]
    ):
        policy = f"sys/devices/system/cpu/cpufreq/policy{number}"
        write(made_up, f"{policy}/scaling_cur_freq", f"{speed}\n")
        write(made_up, f"{policy}/scaling_governor", f"{governor}\n")
    for number, degrees in enumerate([48_312, 61_500]):
        write(made_up, f"sys/class/thermal/thermal_zone{number}/temp", f"{degrees}\n")
    machine = Machine(made_up)
    assert machine.frequency_khz() == 2_400_000
    assert machine.governor() == "performance+schedutil"
    assert machine.temperature_c() == 61.5


def test_without_zones_the_processors_sensor_tells_its_heat(made_up: Path) -> None:
    for number, (name, degrees) in enumerate([("nvme", 70_000), ("k10temp", 44_125)]):
        write(made_up, f"sys/class/hwmon/hwmon{number}/name", f"{name}\n")
        write(made_up, f"sys/class/hwmon/hwmon{number}/temp1_input", f"{degrees}\n")
    assert Machine(made_up).temperature_c() == 44.125


def test_memory_and_load_are_told(made_up: Path) -> None:
    write(
        made_up, "proc/meminfo", "MemTotal: 3884312 kB\nMemFree: 1 kB\nMemAvailable: 3001000 kB\n"
    )
    write(made_up, "proc/loadavg", "0.42 0.30 0.20 1/234 5678\n")
    assert Machine(made_up).memory() == Memory(3884312 * 1024, 3001000 * 1024)
    assert Machine(made_up).load() == 0.42


def test_a_machine_that_tells_nothing_is_no_fault(made_up: Path) -> None:
    machine = Machine(made_up)
    assert (machine.cpu_model(), machine.mcpu(AARCH64, ())) == ("", "")
    assert machine.governor() is machine.frequency_khz() is machine.temperature_c() is None
    assert machine.load() is None
    assert machine.memory() == Memory(None, None)


def test_this_machine_tells_of_itself() -> None:
    machine = Machine()
    assert machine.cpu_model()
    assert machine.load() is not None
    memory = machine.memory()
    assert memory.total is not None
    assert memory.free is not None
    assert 0 < memory.free < memory.total
    mcpu = machine.mcpu(machine_triple(), cpu_features())
    resolve_target(f"llvm -mtriple={machine_triple()} -mcpu={mcpu or 'generic'} -num-cores=1")


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def made_up(tmp_path: Path) -> Path:
    """Kernel's files of a machine that this one is not."""
    return tmp_path
