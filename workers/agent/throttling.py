"""Whether a machine is slowed down now, as it says itself: by heat, or for want of power."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from tunebook.workers.agent.system_files import read_number, read_text

# Raspberry Pi's firmware: bits of `get_throttled`; 16 bits higher stands what has been since boot.
_FIRMWARE_FLAGS = {
    0: "under-voltage",
    1: "frequency-capped",
    2: "throttled",
    3: "soft-temperature-limit",
}
_SINCE_BOOT = 16
_FIRMWARE_FILE = "sys/devices/platform/soc*/soc*firmware/get_throttled"
_FIRMWARE_COMMAND = ("vcgencmd", "get_throttled")
_COMMAND_SECONDS = 5.0
# Of cooling devices those that take away speed; fans do not.
_SLOWING = ("cpufreq", "thermal-cpufreq", "cpu", "processor", "intel_powerclamp", "devfreq")
_COUNTERS = ("core_throttle_count", "package_throttle_count")


def ask_firmware() -> str | None:
    """What `vcgencmd get_throttled` prints; None where there is no such program, or no answer."""
    try:
        done = subprocess.run(
            _FIRMWARE_COMMAND,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


class Throttling:
    """What slows a machine down, by the files below `root` and, on a Raspberry Pi, its firmware."""

    def __init__(
        self, root: Path = Path("/"), firmware: Callable[[], str | None] = ask_firmware
    ) -> None:
        self._root = root
        self._firmware = firmware
        self._counts: dict[str, int] = self._throttle_counts()

    def flags(self) -> tuple[str, ...]:
        """What holds now, by name; `thermal-throttling` what happened since it was asked last."""
        return (*self._of_firmware(), *self._of_counters(), *self._of_cooling())

    def _of_firmware(self) -> list[str]:
        bits = self._firmware_bits()
        found = []
        for bit, name in _FIRMWARE_FLAGS.items():
            if bits >> bit & 1:
                found.append(name)
            elif bits >> (bit + _SINCE_BOOT) & 1:
                found.append(f"{name}-since-boot")
        return found

    def _firmware_bits(self) -> int:
        file = next(self._root.glob(_FIRMWARE_FILE), None)
        text = read_text(file) if file is not None else self._firmware()
        try:
            return int((text or "0").strip().rpartition("=")[2], 16)
        except ValueError:
            return 0

    def _of_counters(self) -> list[str]:
        before, self._counts = self._counts, self._throttle_counts()
        rose = any(count > before.get(name, count) for name, count in self._counts.items())
        return ["thermal-throttling"] if rose else []

    def _throttle_counts(self) -> dict[str, int]:
        files = self._root.glob("sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/*_count")
        return {str(file): read_number(file) or 0 for file in files if file.name in _COUNTERS}

    def _of_cooling(self) -> list[str]:
        found = set()
        for device in self._root.glob("sys/class/thermal/cooling_device*"):
            kind = read_text(device / "type") or ""
            if kind.lower().startswith(_SLOWING) and (read_number(device / "cur_state") or 0) > 0:
                found.add(f"cooling-{kind}")
        return sorted(found)
