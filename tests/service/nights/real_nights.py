"""Nights as a user runs them, at a real coordinator."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path

from running_coordinator import RunningCoordinator
from stand_in_worker import TRIALS

from tunebook.cache.remote.client import Client
from tunebook.service.nights.coordinator import PIPELINE, Coordinator, Patience
from tunebook.service.nights.night import Clock, Night, night_name
from tunebook.service.nights.night_file import read_night
from tunebook.service.nights.night_progress import NightProgress
from tunebook.service.nights.standings import StandingsFile
from tunebook.service.nights.summary import NightSummary

NOW = datetime(2026, 11, 30, 22, 0, tzinfo=timezone.utc)
TARGET = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=4"


@dataclass
class View:
    """Keeps what a night tells while it goes on; `on_show` may do something about it."""

    told: list[str] = field(default_factory=list)
    shown: list[NightProgress] = field(default_factory=list)
    on_show: Callable[[NightProgress], None] = lambda _: None

    def tell(self, text: str) -> None:
        self.told.append(text)

    def show(self, progress: NightProgress) -> None:
        self.shown.append(progress)
        self.on_show(progress)


def model_file(folder: Path, name: str) -> str:
    """Makes a file that begins as an ONNX model does; gives its digest. Nothing here reads more of
    it."""
    content = b"\x08\x08\x12\x04test" + name.encode()
    (folder / f"{name}.onnx").write_bytes(content)
    return sha256(content).hexdigest()


@dataclass
class Nights:
    """Runs nights of files in a folder, as one user of one coordinator."""

    folder: Path
    coordinator: RunningCoordinator
    token: str | None = None
    now: Callable[[], datetime] = lambda: NOW

    def model(self, name: str) -> str:
        """Makes a model file in the folder; gives its digest."""
        return model_file(self.folder, name)

    def file(self, *models: str, budget: str = "", **tables: str) -> Path:
        """Writes a night's file; a model is its name, or what stands in its table. The budget is a
        round for each model."""
        path = self.folder / "nightly.toml"
        entries = "\n".join(f"[[models]]\n{_entry(model)}" for model in models)
        targets = tables.get("targets", f"target = '{TARGET}'\nname = 'pi'\nboard_class = 'rpi4'")
        limits = budget or f"trials = {TRIALS * len(models)}"
        path.write_text(
            f"name = 'test'\n[budget]\n{limits}\n[settings]\n{tables.get('settings', '')}\n"
            f"{entries}\n[[targets]]\n{targets}\n"
        )
        return path

    def run(self, file: Path, view: View | None = None, name: str | None = None) -> NightSummary:
        """A night from its beginning to its end."""
        shown = view or View()
        # Quicker than people need to be told.
        clock = Clock(self.now, time.monotonic, lambda seconds: time.sleep(seconds / 40))
        wanted = read_night(file)
        chosen = name or night_name(wanted, clock.now())
        headers = self.coordinator.headers
        token = self.token or headers["Authorization"].removeprefix("Bearer ")
        standings = StandingsFile(self.folder / "state", self.coordinator.url, chosen)
        with Client(self.coordinator.url, token, pipeline=PIPELINE) as client:
            patience = Patience(clock.monotonic, clock.sleep, shown.tell)
            coordinator = Coordinator(client, patience)
            night = Night(coordinator, wanted, chosen, standings, clock, shown)
            return night.run(self.coordinator.url)

    def as_another_user(self, token: str) -> Nights:
        return replace(self, token=token)


def _entry(model: str) -> str:
    return model if "=" in model else f"path = '{model}.onnx'"
