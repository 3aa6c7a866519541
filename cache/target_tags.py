"""The tags of Arm boards that TVM 0.27 knows, as attributes of a target.

Most lack `num-cores`; a tag of that kind needs it beside the name (`arm/rk3399 -num-cores=6`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class _Board:
    mtriple: str
    mattr: str = "+neon"
    mcpu: str | None = None
    model: str | None = None
    num_cores: int | None = None

    def attributes(self) -> dict[str, str]:
        given = {
            "mtriple": self.mtriple,
            "mattr": self.mattr,
            "mcpu": self.mcpu,
            "model": self.model,
            "num-cores": None if self.num_cores is None else str(self.num_cores),
        }
        return {name: value for name, value in given.items() if value is not None}


_LINUX64 = "aarch64-linux-gnu"
_ANDROID64 = "aarch64-linux-android"
_BOARDS = {
    "raspberry-pi/4b-aarch64": _Board(_LINUX64, mcpu="cortex-a72", num_cores=4),
    "arm/rasp3b": _Board("armv7l-linux-gnueabihf", model="bcm2837"),
    "arm/rasp4b": _Board("armv8l-linux-gnueabihf", mcpu="cortex-a72", model="bcm2711"),
    "arm/rasp4b64": _Board(_LINUX64, mcpu="cortex-a72", model="bcm2711"),
    "arm/pixel2": _Board(_ANDROID64, model="snapdragon835"),
    "arm/mate10": _Board(_ANDROID64, model="kirin970"),
    "arm/rk3399": _Board(_LINUX64, model="rk3399"),
    "arm/ultra96": _Board(_LINUX64, model="ultra96"),
    "arm/pynq": _Board("armv7a-linux-eabi", model="pynq"),
    "arm/beagleai": _Board(
        "armv7a-linux-gnueabihf", "+neon,+vfp4,+thumb2", mcpu="cortex-a15", model="beagleai"
    ),
    "arm/stm32mp1": _Board(
        "armv7a-linux-gnueabihf", "+neon,+vfp4,+thumb2", mcpu="cortex-a7", model="stm32mp1"
    ),
    "arm/thunderx": _Board(_LINUX64, "+neon,+crc,+lse", mcpu="thunderxt88", model="thunderx"),
}

TAGS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {name: MappingProxyType(board.attributes()) for name, board in _BOARDS.items()}
)
