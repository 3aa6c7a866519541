"""A night as a team runs it: `tunebook serve` with its own worker, real models, a real search; the
command is killed half-way, and the coordinator twice: before and while it searches. Then a
pipeline's check."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from local_ports import free_port

from tunebook.cache.errors import ExitCode
from tunebook.cache.store import Store

pytestmark = pytest.mark.slow

Eventually = Callable[..., None]
# So many that the coordinator that searches is ended before the last.
TRIALS = 24
NIGHT = f"""
name = "small"
[budget]
trials = {TRIALS}
[settings]
min_hit_rate = 1.0
[[models]]
path = "convolution.onnx"
[[models]]
path = "scaled.onnx"
[[targets]]
name = "this machine"
target = "host"
"""
NO_TVM = """
import sys
sys.modules["tvm"] = None
from tunebook.service.cli import run
sys.exit(run(sys.argv[1:]))
"""


@dataclass
class Team:
    """A coordinator at one port, and its user's commands; `folder` is the user's home."""

    folder: Path
    command: list[str]
    port: int
    ends: ExitStack = field(default_factory=ExitStack)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def database(self) -> Path:
        return self.folder / "tunebook.db"

    @property
    def environment(self) -> dict[str, str]:
        names = ("DATA", "CACHE", "STATE")
        places = {f"XDG_{name}_HOME": str(self.folder / name.lower()) for name in names}
        return {**os.environ, **places, "TUNEBOOK_SERVER": self.url}

    def serve(self, name: str, *more: object) -> subprocess.Popen[bytes]:
        """Starts the coordinator, with its worker unless told otherwise."""
        options = ("--db", self.database, "--models", self.folder / "models", "--port", self.port)
        return self.start("serve", *options, *more, name=name)

    def start(self, *arguments: object, name: str) -> subprocess.Popen[bytes]:
        with (self.folder / name).open("ab") as log:
            process = subprocess.Popen(
                [*self.command, *map(str, arguments)],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
            )
        self.ends.callback(process.wait, 60)
        self.ends.callback(process.terminate)
        return process

    def run(self, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        """A command where TVM is not installed."""
        return subprocess.run(
            [sys.executable, "-c", NO_TVM, *map(str, arguments)],
            cwd=self.folder,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def log(self, name: str) -> str:
        return (self.folder / name).read_text()


@pytest.fixture
def team(tmp_path: Path, command: list[str], onnx_models: ModuleType) -> Iterator[Team]:
    onnx_models.save(tmp_path / "convolution.onnx", onnx_models.convolution())
    onnx_models.save(tmp_path / "scaled.onnx", onnx_models.scaled())
    (tmp_path / "nightly.toml").write_text(NIGHT)
    made = Team(tmp_path, command, free_port())
    with made.ends:
        yield made


def test_a_night_survives_the_end_of_its_coordinator_and_its_own(
    team: Team, eventually: Eventually
) -> None:
    # Nothing is searched yet, so that the jobs wait whenever the commands look.
    without_worker = team.serve("first coordinator", "--workers", 0)
    eventually(lambda: "Tunebook is at" in team.log("first coordinator"), "it listens")
    killed = team.start("nightly", "nightly.toml", name="killed")
    eventually(lambda: "convolution on this machine: waiting" in team.log("killed"), "it submits")
    kill(killed)

    summaries = ("--summary", "night.md", "--summary", "night.json")
    night = team.start("nightly", "nightly.toml", *summaries, name="night")
    eventually(lambda: "convolution on this machine: waiting" in team.log("night"), "it goes on")
    kill(without_worker)
    eventually(lambda: "does not answer" in team.log("night"), "the night notices")

    searching = team.serve("second coordinator")
    eventually(lambda: trials_stored(team.database) > 0, "a trial is stored", 120)
    kill(searching)
    team.serve("third coordinator")
    assert night.wait(120) == ExitCode.OK, team.log("night")
    summary = json.loads(team.log("night.json"))
    assert_summed_up(summary)
    assert_measured_once(team.database)
    assert "| this machine | - | 2/2 100.0 % | 2 of its models new |" in team.log("night.md")

    digests = [job["digest"] for job in summary["jobs"]]
    assert_checked(team, digests, summary["targets"][0]["target"])


def assert_summed_up(summary: dict[str, Any]) -> None:
    assert (summary["resumed"], summary["before_is_late"]) == (True, False)
    assert summary["budget"]["trials"] == TRIALS
    jobs = {job["model"]: job for job in summary["jobs"]}
    assert {job["outcome"] for job in jobs.values()} == {"done"}
    assert sum(job["trials"] for job in jobs.values()) == TRIALS
    convolution = jobs["convolution"]
    assert convolution["after_seconds"] > 0
    assert convolution["untuned_seconds"] > 0
    assert summary["targets"][0]["after"] == {"hits": 2, "wanted": 2, "rate": 1.0}


def assert_measured_once(database: Path) -> None:
    """Neither the models nor the night were submitted again, and every trial has its record."""
    with Store.open(str(database), read_only=True) as store:
        assert len(store.queue.budgets()) == 1
        jobs = store.queue.jobs()
        assert len(jobs) == 2
    assert trials_stored(database) == TRIALS


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def trials_stored(database: Path) -> int:
    with Store.open(str(database), read_only=True) as store:
        tasks = [task for job in store.queue.jobs() for task in store.task_states(job.id)]
        return sum(task.trials for task in tasks)


def assert_checked(team: Team, digests: list[str], target: str) -> None:
    """A pipeline without TVM checks the same models by file and by digest, at the coordinator and
    in its database."""
    asked = ("--target", target, "--json")
    for places in ([], ["--db", team.database]):
        hit = team.run("check", "convolution.onnx", digests[1], *asked, *places)
        assert hit.returncode == ExitCode.OK, hit.stderr
        assert [one["hit_rate"] for one in json.loads(hit.stdout)["models"]] == [1.0, 1.0]
    assert_split_here(team, target)
    other = f"{target} -opt-level=1"
    lost = team.run("check", "convolution.onnx", "--target", other, GITHUB_ACTIONS="true")
    assert lost.returncode == ExitCode.SERVER
    assert lost.stdout.startswith("::error title=tunebook check could not ask::the model ")
    assert lost.stderr.count("\n") == 1


def assert_split_here(team: Team, target: str) -> None:
    """A model that nobody split for a target is split by who asks, where TVM is installed."""
    other = f"{target} -opt-level=1"
    asked = team.start("check", "convolution.onnx", "--target", other, "--json", name="split")
    assert asked.wait(60) == ExitCode.MISS, team.log("split")
    log = team.log("split")
    (model,) = json.loads(log[log.index("{") : log.rindex("}") + 1])["models"]
    assert (model["hits"], model["wanted"]) == (0, 1)
    assert model["misses"][0]["reason"] == "other-target"
    assert f"--server {team.url}" in model["misses"][0]["mending_command"]
