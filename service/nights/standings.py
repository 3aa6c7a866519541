"""What the cache had before a night, kept on this machine so that a resumed night still knows."""

from __future__ import annotations

import hashlib
from pathlib import Path

import platformdirs
from pydantic import BaseModel, ValidationError

from tunebook.service.nights.documents import Standing
from tunebook.service.whole_files import write_whole


class Standings(BaseModel):
    """What the cache had for each job of a night, by the job's identity; None where its model had
    never been split. `late`: looked up when the night was under way already."""

    night: str
    late: bool = False
    jobs: dict[str, Standing | None]


def default_folder() -> Path:
    """Where this user's nights are kept."""
    return platformdirs.user_state_path("tunebook", appauthor=False) / "nights"


class StandingsFile:
    """The file of one night at one coordinator."""

    def __init__(self, folder: Path, server: str, night: str) -> None:
        name = hashlib.sha256(f"{server}\n{night}".encode()).hexdigest()[:32]
        self._path = folder / f"{name}.json"
        self._night = night

    def read(self) -> Standings | None:
        """What was kept; None where nothing was, or it cannot be read."""
        try:
            found = Standings.model_validate_json(self._path.read_bytes())
        except (OSError, ValidationError):
            return None
        return found if found.night == self._night else None

    def write(self, standings: Standings) -> None:
        """Keeps it: wholly, or as it was. Raises OSError."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._path, standings.model_dump_json())
