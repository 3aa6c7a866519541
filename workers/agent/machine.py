"""What this machine says of itself: its processor, and what may disturb a measurement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tunebook.workers.agent.cpu_names import aarch64_cpu, x86_64_cpu
from tunebook.workers.agent.system_files import read_number, read_text

# Sensors of the processor where the kernel has no thermal zone for it.
_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
_KIBIBYTE = 1024


@dataclass(frozen=True)
class Memory:
    """A machine's memory in bytes: all of it, and what programs can still get."""

    total: int | None
    free: int | None


@dataclass(frozen=True)
class _Core:
    implementer: int
    part: int
    capacity: int


class Machine:
    """A machine by its kernel's files below `root`; None and empty for what they do not tell."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._cpus = root / "sys/devices/system/cpu"

    def cpu_model(self) -> str:
        """The processor's name; on a board its cores and the board's own name."""
        info = self._cpuinfo()
        named = next((one["model name"] for one in info if one.get("model name")), "")
        counts = Counter(aarch64_cpu(core.implementer, core.part) for core in self._cores())
        cores = " + ".join(f"{count} x {name}" for name, count in counts.items() if name)
        board = read_text(self._root / "proc/device-tree/model") or ""
        return ", ".join(part for part in (board, named or cores) if part)

    def mcpu(self, mtriple: str, features: Collection[str]) -> str:
        """LLVM's name of the processor, of several kinds of cores the strongest; empty where it is
        not known. `features` are what the board's server tells, by LLVM's names."""
        if mtriple.startswith("x86_64"):
            return x86_64_cpu(features)
        if not mtriple.startswith("aarch64"):
            return ""
        # Kernels run on the strongest; Linux lets no core tell features that another lacks.
        strongest = max(self._cores(), key=lambda core: core.capacity, default=None)
        return aarch64_cpu(strongest.implementer, strongest.part) if strongest else ""

    def governor(self) -> str | None:
        """The frequency governor; several where cores have different ones."""
        found = {read_text(path / "scaling_governor") for path in self._policies()}
        return "+".join(sorted(name for name in found if name)) or None

    def frequency_khz(self) -> int | None:
        """The frequency of the fastest core at this moment."""
        found = [read_number(path / "scaling_cur_freq") for path in self._policies()]
        return max((one for one in found if one is not None), default=None)

    def temperature_c(self) -> float | None:
        """Of the hottest zone, in degrees Celsius."""
        zones = list((self._root / "sys/class/thermal").glob("thermal_zone*/temp"))
        if not zones:
            for sensor in (self._root / "sys/class/hwmon").glob("hwmon*"):
                if read_text(sensor / "name") in _SENSORS:
                    zones += sensor.glob("temp*_input")
        found = [read_number(path) for path in zones]
        return max((one / 1000 for one in found if one is not None), default=None)

    def load(self) -> float | None:
        """The load of the last minute."""
        words = (read_text(self._root / "proc/loadavg") or "").split()
        return float(words[0]) if words else None

    def memory(self) -> Memory:
        """How much memory there is."""
        known: dict[str, int] = {}
        for line in (read_text(self._root / "proc/meminfo") or "").splitlines():
            name, _, rest = line.partition(":")
            number = rest.split()[:1]
            if number and number[0].isdigit():
                known[name] = int(number[0]) * _KIBIBYTE
        return Memory(known.get("MemTotal"), known.get("MemAvailable"))

    def _policies(self) -> list[Path]:
        return sorted((self._cpus / "cpufreq").glob("policy*"))

    def _cpuinfo(self) -> list[dict[str, str]]:
        """One table a core."""
        text = read_text(self._root / "proc/cpuinfo") or ""
        return [
            {
                name.strip(): value.strip()
                for name, _, value in (line.partition(":") for line in block.splitlines())
            }
            for block in text.split("\n\n")
        ]

    def _cores(self) -> list[_Core]:
        """Arm's cores, in their order."""
        found = []
        for number, one in enumerate(self._cpuinfo()):
            try:
                implementer, part = int(one["CPU implementer"], 16), int(one["CPU part"], 16)
            except (KeyError, ValueError):
                continue
            capacity = read_number(self._cpus / f"cpu{number}/cpu_capacity") or 0
            found.append(_Core(implementer, part, capacity))
        return found
