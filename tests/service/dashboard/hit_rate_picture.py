"""Draws docs/hit-rate.png: a week at a coordinator, in some minutes.

Models are tuned and migrated on this machine for several of its targets, and builds ask for them
as they would over a week: every answer is a real one of the store as it was then, counted by the
coordinator's own counter, and only the clock is ours. Then `tunebook serve` runs with a worker that
tunes two submitted jobs, and Chromium takes the picture.

    python tests/service/dashboard/hit_rate_picture.py docs/hit-rate.png
"""

from __future__ import annotations

import hashlib
import importlib.util
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parent))

from real_run import reading_token, serving
from small_png import small_png

from tunebook.cache.access.tokens import Role
from tunebook.cache.records import Model
from tunebook.cache.store import Store
from tunebook.service.api.lookups.lookup_counter import LookupCounter, Tally
from tunebook.service.cli import run
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.llvm_targets import resolve_target
from tunebook.tuner.splitting.prepare import prepare
from tunebook.tuner.splitting.split import split_model

SERVER = "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3 -num-cores=2"
DESKTOP = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -num-cores=1"
BOARD = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -mattr=+dotprod,+neon -num-cores=4"
DAYS = 7
STEP = timedelta(minutes=15)
TRIALS = 3
WIDTH, HEIGHT, GAP = 1180, 900, 18


@dataclass(frozen=True)
class Build:
    """What a pipeline builds each time: models for a target."""

    pipeline: str
    target: str
    models: tuple[str, ...]


class Week:
    """A database, the models in a folder, and a clock that this script turns."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder = folder
        self.store = store
        self.now = datetime.now(timezone.utc) - timedelta(days=DAYS)
        self._counter = LookupCounter(store.statistics, clock=lambda: self.now.timestamp())
        self._splits: dict[tuple[str, str], Model] = {}
        self._random = random.Random(4)

    def tune(self, target: str, *models: str) -> None:
        self._command("tune", target, models, "--trials", TRIALS)

    def migrate(self, target: str, *models: str) -> None:
        self._command("migrate", target, models, "--trials-per-task", 1)

    def let_a_day_pass(self, builds: Sequence[Build]) -> None:
        """A day of builds at irregular times."""
        end = min(self.now + timedelta(days=1), datetime.now(timezone.utc))
        while self.now < end:
            for build in builds:
                if self._random.random() < 0.7:
                    self._look_up(build)
            self.now += STEP
        self.now = end
        self._counter.flush()

    def _command(self, command: str, target: str, models: Sequence[str], *options: object) -> None:
        for model in models:
            where = (self._path(model), "--target", target, "--db", self.folder / "tunebook.db")
            print(f"{command} {model} for {target}", file=sys.stderr)
            code = run([*map(str, (command, *where, *options, "--json"))])
            assert code == 0, (command, model, code)

    def _look_up(self, build: Build) -> None:
        for model in build.models:
            split = self._split(model, build.target)
            answered = self.store.answers.of_keys(build.target, split.keys, hints=split.hints)
            self._counter.count(
                build.pipeline, Tally.of(answered.answer, build.target, is_stored=True)
            )

    def _split(self, model: str, target: str) -> Model:
        place = (model, target)
        if place not in self._splits:
            made = split_model(prepare(read_model(self._path(model)), resolve_target(target)))
            self.store.save_model(made)
            self._splits[place] = made
        return self._splits[place]

    def _path(self, model: str) -> Path:
        return self.folder / f"{model}.onnx"


def make_models(folder: Path) -> None:
    """Small models as a camera and a microphone would have, and one that was trained anew."""
    path = Path(__file__).parents[2] / "tuner" / "onnx_models.py"
    spec = importlib.util.spec_from_file_location("onnx_models", path)
    assert spec is not None and spec.loader is not None
    models = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(models)
    made = {
        "denoise": models.scaled_convolution(),
        "denoise-retrained": models.scaled_convolution(scale=0.25),
        "denoise-batch-2": models.scaled_convolution(batch=2),
        "upscale": models.upscaled(),
        "keyword": models.residual(),
        "keyword-2": models.residual(2),
        "volume": models.averaged(),
    }
    for name, model in made.items():
        models.save(folder / f"{name}.onnx", model)


def live_through(week: Week) -> None:
    """What happens in the week, day by day."""
    camera = Build("camera-firmware", SERVER, ("denoise", "upscale"))
    retrained = Build("camera-firmware", SERVER, ("denoise-retrained", "upscale"))
    speech = Build("speech-release", SERVER, ("keyword",))
    volume = Build("speech-release", SERVER, ("keyword", "volume"))
    desktop = Build("desktop-app", DESKTOP, ("denoise", "upscale", "keyword"))
    batched = Build("nightly", DESKTOP, ("denoise", "denoise-batch-2", "keyword-2"))
    board = Build("camera-firmware", BOARD, ("denoise", "upscale"))

    week.tune(SERVER, "denoise", "upscale", "keyword")
    week.tune(DESKTOP, "denoise")
    week.let_a_day_pass([camera, speech, desktop])
    week.let_a_day_pass([camera, speech, desktop])
    week.migrate(DESKTOP, "upscale")
    # Trained anew: other constants in one kernel, until it is migrated.
    week.let_a_day_pass([retrained, speech, desktop])
    week.let_a_day_pass([retrained, speech, desktop, batched])
    week.migrate(SERVER, "denoise-retrained")
    week.migrate(DESKTOP, "keyword")
    week.let_a_day_pass([retrained, speech, desktop, batched])
    # Boards arrive, and a model that nothing like was ever tuned.
    week.let_a_day_pass([retrained, speech, desktop, batched, board])
    week.let_a_day_pass([retrained, volume, desktop, batched, board])


def submit_jobs(url: str, secret: str, folder: Path) -> None:
    """Two jobs, of which the worker here can serve one; waits until that is under way."""
    client = httpx.Client(base_url=f"{url}/api/v1", timeout=60)
    client.headers["Authorization"] = f"Bearer {secret}"

    def submit(model: str, **job: Any) -> dict[str, Any]:
        content = (folder / f"{model}.onnx").read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        kind = {"Content-Type": "application/octet-stream"}
        client.put(f"/models/{digest}", content=content, headers=kind).raise_for_status()
        answer = client.post("/jobs", json={"model": digest, "name": model, **job})
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    submit("denoise", target=BOARD, board_class="pi5", budget={"trials": 400, "seconds": 28800})
    running = submit("keyword-2", target=DESKTOP, board_class="local", budget={"trials": 120})

    def under_way() -> bool:
        job = client.get(f"/jobs/{running['id']}").json()
        print(f"job: {job['state']} {job['budget']['trials']}", file=sys.stderr)
        return bool(job["budget"]["trials"]["spent"] >= 20)

    wait_until(under_way)


def wait_until(holds: Callable[[], bool], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(1)


def take_picture(url: str, secret: str, picture: Path) -> None:
    with sync_playwright() as driver:
        options = ["--no-sandbox", "--disable-gpu"]
        found = shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=found, args=options)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(f"{url}/?window=7d")
        page.get_by_label("Access token").fill(secret)
        page.keyboard.press("Enter")
        page.wait_for_selector(".chart canvas")
        # Out of the way of what it would point at.
        page.mouse.move(0, 0)
        first = page.locator(".cause").first.bounding_box()
        assert first is not None
        page.set_viewport_size({"width": WIDTH, "height": int(first["y"] + first["height"]) + GAP})
        page.wait_for_timeout(500)
        picture.write_bytes(small_png(page.screenshot(), browser))
        browser.close()


def main() -> None:
    picture = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_models(folder)
        with Store.open(str(folder / "tunebook.db")) as store:
            live_through(Week(folder, store))
            admin = store.tokens.create("nightly", Role.ADMIN).secret
            with serving(folder / "tunebook.db", folder, workers=1) as url:
                submit_jobs(url, admin, folder)
                take_picture(url, reading_token(store), picture)


if __name__ == "__main__":
    main()
