"""Runs the commands of compose.yaml and of the units here: the same words, but for the places."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy_files import DEPLOY
from local_ports import free_port

from tunebook.cache.errors import BoardError

# The modules that come with each extra; `tune` brings those of `board` too.
_MODULES = {
    "serve": ("fastapi", "starlette", "uvicorn", "jinja2", "fsspec", "prometheus_client"),
    "board": ("tvm", "tvm_ffi", "numpy", "psutil", "cloudpickle", "tornado"),
    "tune": ("xgboost", "onnx", "onnxruntime", "ml_dtypes", "ziglang"),
    "postgresql": ("psycopg",),
    "redis": ("redis",),
}
# What Python imports before anything else.
_SITE = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""
_COORDINATOR_PORT, _TRACKER_PORT = "8470", "9190"
_PATIENCE = 60


class DeployedFleet:
    """What was started of a fleet, in a folder of its own. `here` turns what is said of hosts,
    ports and folders there into what is so here."""

    def __init__(self, folder: Path, database_url: str, redis_url: str) -> None:
        self.folder = folder
        self.database_url = database_url
        self.port, self.tracker_port = str(free_port()), str(free_port())
        kept = {name: value for name, value in os.environ.items() if "TUNEBOOK" not in name}
        self.environment = {
            **kept,
            "TUNEBOOK_DATABASE_URL": database_url,
            "TUNEBOOK_REDIS_URL": redis_url,
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder / "data"),
            "PATH": f"{DEPLOY / 'docker'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def here(self, words: Sequence[str]) -> list[str]:
        """The same words with the places of here."""
        places = {
            "0.0.0.0": "127.0.0.1",
            "//coordinator:": "//127.0.0.1:",
            "tracker:": "127.0.0.1:",
            _COORDINATOR_PORT: self.port,
            _TRACKER_PORT: self.tracker_port,
            "/var/lib/tunebook-backups": str(self.folder / "backups"),
            "/var/lib/tunebook": str(self.folder / "var"),
            "/backups": str(self.folder / "backups"),
            "/tokens": str(self.folder / "tokens"),
        }
        return [_replaced(word, places) for word in words]

    def with_only(self, extras: set[str]) -> dict[str, str]:
        """An environment for a process that has these extras and no others, as in its image."""
        there = extras | ({"board"} if "tune" in extras else set())
        missing = {one for extra in _MODULES.keys() - there for one in _MODULES[extra]}
        folder = self.folder / "-".join(["site", *sorted(extras)])
        folder.mkdir(exist_ok=True)
        (folder / "sitecustomize.py").write_text(_SITE.format(missing=missing))
        return {"PYTHONPATH": str(folder)}

    def start(self, name: str, words: Sequence[str], **environment: str) -> None:
        """Starts `tunebook WORDS`, with more in its environment; its log is `NAME.log`."""
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [*tunebook(), *self.here(words)],
                stdout=log,
                stderr=log,
                env=self.environment | environment,
                cwd=self.folder,
            )

    def run(self, command: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs a whole command to its end, with more in its environment."""
        command = self.here(command)
        if command[0] == "tunebook":
            command = [*tunebook(), *command[1:]]
        return subprocess.run(
            command,
            env=self.environment | environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
        )

    def log(self, name: str) -> str:
        """What a process has told so far."""
        return (self.folder / f"{name}.log").read_text()

    def get(self, path: str, token: str = "") -> tuple[int, str]:
        """The status and text of an answer of the coordinator; 0 where it does not answer."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            for name, process in self._processes.items():
                assert process.poll() is None, self.log(name)
            return 0, ""

    def is_ready(self) -> bool:
        """Whether the coordinator says so."""
        return self.get("/readyz")[0] == 200

    def has_tracker(self) -> bool:
        """Whether the tracker answers."""
        # Only here: other tests of deploy/ should not wait for TVM.
        from tunebook.workers.boards.tracker import TrackerAddress, query_tracker

        try:
            query_tracker(TrackerAddress("127.0.0.1", int(self.tracker_port)), _PATIENCE)
        except BoardError:
            return False
        return True

    def stop(self) -> dict[str, int]:
        """Stops everything as a service manager does; gives the exit codes by name."""
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        codes = {}
        for name, process in self._processes.items():
            try:
                codes[name] = process.wait(timeout=_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                codes[name] = process.wait()
        self._processes.clear()
        return codes


def tunebook() -> list[str]:
    """The program, of this environment."""
    return [sys.executable, "-m", "tunebook.service.cli"]


def _replaced(word: str, places: Mapping[str, str]) -> str:
    for place, here in places.items():
        if here not in word:
            word = word.replace(place, here)
    return word
