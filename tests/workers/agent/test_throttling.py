"""What slows a board down is told by name, from wherever the board tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tunebook.workers.agent.throttling import Throttling

FIRMWARE = "sys/devices/platform/soc/soc:firmware/get_throttled"
COUNTER = "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count"


def nothing() -> None:
    """What a machine without the firmware's program says."""


@pytest.mark.parametrize(
    ("said", "flags"),
    [
        ("throttled=0x0\n", ()),
        ("throttled=0x1\n", ("under-voltage",)),
        ("throttled=0x50005\n", ("under-voltage", "throttled")),
        ("throttled=0x50000\n", ("under-voltage-since-boot", "throttled-since-boot")),
        ("throttled=0x8\n", ("soft-temperature-limit",)),
        ("VCHI initialization failed\n", ()),
        (None, ()),
    ],
)
def test_a_raspberry_pis_firmware_says_what_it_throttles(
    said: str | None, flags: tuple[str, ...], tmp_path: Path
) -> None:
    assert Throttling(tmp_path, lambda: said).flags() == flags


def test_where_the_kernel_tells_the_firmwares_flags_its_program_is_not_asked(
    tmp_path: Path,
) -> None:
    write(tmp_path, FIRMWARE, "50002\n")
    assert Throttling(tmp_path, lambda: "throttled=0x0").flags() == (
        "under-voltage-since-boot",
        "frequency-capped",
        "throttled-since-boot",
    )


def test_a_counter_that_rose_since_it_was_asked_last_tells_of_heat(tmp_path: Path) -> None:
    write(tmp_path, COUNTER, "7\n")
    throttling = Throttling(tmp_path, nothing)
    assert throttling.flags() == ()
    write(tmp_path, COUNTER, "9\n")
    assert throttling.flags() == ("thermal-throttling",)
    assert throttling.flags() == ()


@pytest.mark.parametrize(
    ("kind", "state", "flags"),
    [
        ("thermal-cpufreq-0", 3, ("cooling-thermal-cpufreq-0",)),
        ("thermal-cpufreq-0", 0, ()),
        ("Processor", 1, ("cooling-Processor",)),
        ("intel_powerclamp", -1, ()),
        ("pwm-fan", 4, ()),
    ],
)
def test_a_cooling_device_tells_where_it_takes_speed_away(
    kind: str, state: int, flags: tuple[str, ...], tmp_path: Path
) -> None:
    write(tmp_path, "sys/class/thermal/cooling_device0/type", f"{kind}\n")
    write(tmp_path, "sys/class/thermal/cooling_device0/cur_state", f"{state}\n")
    assert Throttling(tmp_path, nothing).flags() == flags


def test_this_machine_can_be_asked() -> None:
    assert isinstance(Throttling().flags(), tuple)


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
