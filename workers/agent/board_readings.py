"""A board's report: what its machine, its server and its supervisor tell, put together."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tunebook.cache.boards.board_reports import BoardReport
from tunebook.workers.agent.installed_versions import installed_versions
from tunebook.workers.agent.machine import Machine
from tunebook.workers.agent.throttling import Throttling
from tunebook.workers.boards.board_supervisor import BoardStanding
from tunebook.workers.boards.server.cpu_features import cpu_features
from tunebook.workers.boards.server.machine import machine_triple
from tunebook.workers.boards.tracker import TrackerAddress


@dataclass(frozen=True)
class Processor:
    """What of a board stays the same: its processor's name, the triple, LLVM's name and features
    of it, and how many cores it may use."""

    cpu_model: str
    mtriple: str
    mcpu: str
    features: tuple[str, ...]
    cores: int

    @classmethod
    def of_this_machine(cls, machine: Machine) -> Processor:
        features = cpu_features()
        mtriple = machine_triple()
        return cls(
            cpu_model=machine.cpu_model(),
            mtriple=mtriple,
            mcpu=machine.mcpu(mtriple, features),
            features=features,
            cores=len(os.sched_getaffinity(0)),
        )


class BoardReadings:
    """Reads a board's state anew for each report."""

    def __init__(self, processor: Processor, machine: Machine, throttling: Throttling) -> None:
        self._processor = processor
        self._machine = machine
        self._throttling = throttling
        self._versions = installed_versions()

    def report(self, tracker: TrackerAddress, standing: BoardStanding) -> BoardReport:
        """How the board is now, as its supervisor has it at a tracker."""
        processor, machine, server = self._processor, self._machine, standing.registered
        memory = machine.memory()
        # An emulated board's features only its server can tell.
        features = processor.features or tuple(sorted(server.features if server else ()))
        return BoardReport(
            cpu_model=processor.cpu_model,
            mtriple=processor.mtriple,
            mcpu=processor.mcpu,
            cores=processor.cores,
            features=features,
            governor=machine.governor(),
            frequency_khz=machine.frequency_khz(),
            temperature_c=machine.temperature_c(),
            throttled=self._throttling.flags(),
            load=machine.load(),
            memory_bytes=memory.total,
            memory_free_bytes=memory.free,
            versions=self._versions,
            tracker=str(tracker),
            registered=server is not None,
            serving=server is not None and server.serving,
            restarts=standing.restarts,
            fault=standing.fault,
        )
