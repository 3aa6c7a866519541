"""What may disturb a measurement on this board."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tunebook.workers.boards.server.system_files import number_of, text_of


def board_state(name: str) -> str:
    """JSON of what may disturb a measurement: load, governor, frequency, temperature.

    `load` is that of the last minute; frequency is in kHz and temperature in degrees Celsius, of
    the first core and of the hottest zone; null where the board does not tell.
    """
    cpu = Path("/sys/devices/system/cpu/cpu0/cpufreq")
    zones = Path("/sys/class/thermal").glob("thermal_zone*/temp")
    temperatures = [value for zone in zones if (value := number_of(zone)) is not None]
    return json.dumps(
        {
            "name": name,
            "load": os.getloadavg()[0],
            "governor": text_of(cpu / "scaling_governor"),
            "frequency_khz": number_of(cpu / "scaling_cur_freq"),
            "temperature_c": max(temperatures) / 1000 if temperatures else None,
        }
    )
