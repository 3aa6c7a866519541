"""The commands of compose.yaml, of the images and of the units do what they are for, without
containers and without systemd: on PostgreSQL and Redis, with a tracker, a worker and Prometheus."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cache_samples import conv, serve
from deploy_files import DEPLOY, DOCKERFILES, UNITS, Dockerfile, commands_of, compose
from postgresql_server import PostgresqlServer
from running_fleet import RunningFleet, free_port, tunebook

from tunebook.cache.access.tokens import Role
from tunebook.cache.store import Store
from tunebook.service.cli import run

BOARDS = "boards-of-a-test"
BOARD = ["--class", BOARDS, "--name", "board-1", "--tracker", "tracker:9190"]
FLEET = compose(
    {
        "POSTGRES_PASSWORD": "a",
        "REDIS_PASSWORD": "b",
        "GRAFANA_PASSWORD": "c",
        "TUNEBOOK_BOARDS": BOARDS,
    }
)
SERVICES: dict[str, dict[str, Any]] = FLEET["services"]
IMAGES = {path.name.partition(".")[0]: Dockerfile.read(path) for path in DOCKERFILES}


def units_commands() -> list[tuple[str, list[str]]]:
    """The commands of units that run `tunebook`, each with its unit's name."""
    return [
        (unit.stem, command[1:])
        for unit in UNITS
        for command in commands_of(unit)
        if command[0].endswith("/tunebook")
    ]


def of_unit(name: str, environment: dict[str, str]) -> list[list[str]]:
    """The commands of a unit, with what systemd fills in."""

    def filled(word: str) -> str:
        return re.sub(r"\$\{(\w+)\}", lambda match: environment[match[1]], word)

    return [[filled(word) for word in words] for unit, words in units_commands() if unit == name]


# Whatever is run by any of them, with its place.
COMMANDS = [
    *((name, service["command"]) for name, service in SERVICES.items() if "build" in service),
    *((f"image {name}", image.command("CMD")) for name, image in IMAGES.items()),
    *((f"unit {name}", words) for name, words in units_commands()),
]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, id=name)
        for name, words in COMMANDS
        if "entrypoint" not in SERVICES.get(name, {})
    ],
)
def test_every_option_of_every_command_is_one(
    words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    # What a unit's environment adds is its owner's.
    known = [word for word in words if not word.startswith("$")]
    assert run([*known, "--help"]) == 0
    assert capfd.readouterr().err == ""


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    """Redis as compose.yaml starts it, but for its port."""
    if shutil.which("redis-server") is None:
        pytest.skip("no Redis is installed (no redis-server in PATH)")
    service, port = SERVICES["redis"], free_port()
    command = [
        word.replace('save ""', f'port {port}\nbind 127.0.0.1\nsave ""')
        for word in service["command"]
    ]
    environment = {**os.environ, **service["environment"]}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    yield f"redis://:{service['environment']['REDISCLI_AUTH']}@127.0.0.1:{port}/0"
    server.terminate()
    assert server.wait(timeout=60) == 0


def environment_of(postgresql: PostgresqlServer, redis_url: str) -> dict[str, str]:
    return {"TUNEBOOK_DATABASE_URL": postgresql.empty_database(), "TUNEBOOK_REDIS_URL": redis_url}


def in_image(fleet: RunningFleet, name: str) -> dict[str, str]:
    """An environment with what an image has installed, and nothing else."""
    (extras,) = re.findall(r"\.whl\)\[([\w,]+)\]", " ".join(IMAGES[name].all("RUN")))
    return fleet.with_only(set(extras.split(",")))


def ready(fleet: RunningFleet) -> bool:
    return fleet.get("/readyz")[0] == 200


class TestCompose:
    @pytest.fixture(scope="class")
    @classmethod
    def fleet(
        cls,
        postgresql_server: PostgresqlServer,
        redis_url: str,
        tmp_path_factory: pytest.TempPathFactory,
        eventually: Callable[..., None],
    ) -> Iterator[RunningFleet]:
        """All services of ours, in the order in which they wait for each other."""
        fleet = RunningFleet(
            tmp_path_factory.mktemp("compose"), environment_of(postgresql_server, redis_url)
        )
        try:
            for one in ("schema", "prometheus-token", "worker-token"):
                service = SERVICES[one]
                for volume in service.get("volumes", []):
                    Path(fleet.here([volume.partition(":")[2]])[0]).mkdir(parents=True)
                command = [*service.get("entrypoint", ["tunebook"]), *service["command"]]
                done = fleet.run(command, **in_image(fleet, "coordinator"))
                assert done.returncode == 0, done.stderr
            for name, image in (("coordinator", "coordinator"), ("tracker", "worker")):
                fleet.start(name, SERVICES[name]["command"], **in_image(fleet, image))
            eventually(lambda: ready(fleet), "the coordinator is ready")
            (file,) = fleet.here(["/tokens/worker/token"])
            worker = in_image(fleet, "worker") | {"TUNEBOOK_TOKEN_FILE": file}
            fleet.start("worker", SERVICES["worker"]["command"], **worker)
            with Store.open(fleet.environment["TUNEBOOK_DATABASE_URL"]) as store:
                token = store.tokens.create("board-1", Role.BOARD, f"{BOARDS}/board-1").secret
            board = ["board", *BOARD, "--coordinator", "http://coordinator:8470"]
            fleet.start("board", board, TUNEBOOK_TOKEN=token, **in_image(fleet, "board"))
            eventually(lambda: '"ready"' in fleet.log("worker"), "the worker is ready")
            yield fleet
        finally:
            codes = fleet.stop()
        assert codes == {"coordinator": 0, "tracker": 0, "worker": 0, "board": 0}

    @pytest.fixture(scope="class")
    @classmethod
    def token(cls, fleet: RunningFleet) -> str:
        """The one that was made for Prometheus."""
        return Path(fleet.here(["/tokens/prometheus/token"])[0]).read_text().strip()

    @pytest.mark.parametrize(
        ("image", "lacks"), [("coordinator", "tvm"), ("worker", "fastapi"), ("board", "xgboost")]
    )
    def test_each_ran_with_no_more_than_its_image_has(
        self, fleet: RunningFleet, image: str, lacks: str
    ) -> None:
        done = fleet.run(["python", "-c", f"import {lacks}"], **in_image(fleet, image))
        assert f"No module named '{lacks}'" in done.stderr

    def test_each_part_is_healthy_by_its_own_check(self, fleet: RunningFleet) -> None:
        checks = [
            IMAGES["coordinator"].command("HEALTHCHECK"),
            IMAGES["worker"].command("HEALTHCHECK"),
            IMAGES["board"].command("HEALTHCHECK"),
            SERVICES["tracker"]["healthcheck"]["test"][1:],
        ]
        done = [fleet.run(check) for check in checks]
        assert [one.returncode for one in done] == [0, 0, 0, 0], [one.stderr for one in done]

    def test_the_metrics_tell_of_the_worker_its_board_and_redis(
        self, fleet: RunningFleet, token: str, eventually: Callable[..., None]
    ) -> None:
        board = f'\ntunebook_boards{{board_class="{BOARDS}"}} 1.0\n'
        eventually(lambda: board in fleet.get("/metrics", token)[1], "the worker has the board")
        _, text = fleet.get("/metrics", token)
        assert "\ntunebook_workers 1.0\n" in text
        assert "\ntunebook_redis_up 1.0\n" in text

    def test_the_workers_token_fetches_models_and_nothing_is_read_without_one(
        self, fleet: RunningFleet
    ) -> None:
        secret = Path(fleet.here(["/tokens/worker/token"])[0]).read_text().strip()
        path = f"/api/v1/models/{'0' * 64}"
        assert fleet.get(path, secret)[0] == 404
        assert fleet.get(path)[0] == 401
        assert fleet.get("/metrics")[0] == 401

    def test_a_token_that_is_good_is_kept_and_one_that_is_not_is_replaced(
        self, fleet: RunningFleet, token: str
    ) -> None:
        """As after a restart, and after another database was restored."""
        service, path = SERVICES["prometheus-token"], fleet.folder / "tokens/prometheus/token"
        command = [*service["entrypoint"], *service["command"]]
        assert fleet.run(command).returncode == 0
        assert path.read_text().strip() == token
        path.write_text("tbk_read_of_another_database\n")
        try:
            assert fleet.run(command).returncode == 0
            assert fleet.get("/metrics", path.read_text().strip())[0] == 200
        finally:
            path.write_text(f"{token}\n")

    def test_prometheus_reads_it_and_its_alerts(
        self, fleet: RunningFleet, tmp_path: Path, eventually: Callable[..., None]
    ) -> None:
        if shutil.which("prometheus") is None:
            pytest.skip("no Prometheus is installed (Debian's package prometheus)")
        shutil.copytree(DEPLOY / "prometheus", tmp_path / "prometheus")
        config = tmp_path / "prometheus" / "prometheus.yml"
        text = config.read_text().replace("15s", "1s")
        text = text.replace("coordinator:8470", f"127.0.0.1:{fleet.port}")
        text = text.replace("/etc/tunebook/", f"{fleet.folder}/tokens/")
        config.write_text(text)
        places = {"/etc/prometheus/": f"{config.parent}/", "/prometheus": f"{tmp_path}/data"}
        words = []
        for word in SERVICES["prometheus"]["command"]:
            option, _, value = word.partition("=")
            for place, here in places.items():
                if value.startswith(place):
                    value = here + value.removeprefix(place)
                    break
            words.append(f"{option}={value}")
        port = free_port()
        address = f"127.0.0.1:{port}"
        with (tmp_path / "log").open("wb") as log:
            server = subprocess.Popen(
                ["prometheus", *words, f"--web.listen-address={address}"], stdout=log, stderr=log
            )
        try:
            eventually(
                lambda: answer_of(address, "up") == [("tunebook", "1")],
                "Prometheus has read the coordinator",
            )
            assert answer_of(address, "tunebook_workers") == [("tunebook", "1")]
            groups = json.loads(fetched(f"http://{address}/api/v1/rules"))["data"]["groups"]
            assert {group["name"] for group in groups} >= {"tunebook-boards", "tunebook-parts"}
        finally:
            server.terminate()
            server.wait(timeout=60)

    def test_the_backup_by_hand_is_restored_by_hand(
        self, fleet: RunningFleet, postgresql_server: PostgresqlServer
    ) -> None:
        if shutil.which("pg_dump") is None:
            pytest.skip("no pg_dump is installed")
        url = fleet.environment["TUNEBOOK_DATABASE_URL"]
        with Store.open(url) as store:
            key = serve(store, conv())
        of_image = in_image(fleet, "coordinator")
        done = fleet.run(["tunebook", *SERVICES["backup"]["command"]], **of_image)
        assert done.returncode == 0, done.stderr
        elsewhere = postgresql_server.empty_database()
        words = [*SERVICES["restore"]["command"], "--db", elsewhere]
        done = fleet.run(["tunebook", *words], **of_image)
        assert done.returncode == 0, done.stderr
        with Store.open(elsewhere) as store:
            assert list(store.lookup([key]).hits) == [key]


class TestUnits:
    @pytest.fixture(scope="class")
    @classmethod
    def machine(
        cls,
        postgresql_server: PostgresqlServer,
        redis_url: str,
        tmp_path_factory: pytest.TempPathFactory,
        eventually: Callable[..., None],
    ) -> Iterator[RunningFleet]:
        """The services of one machine, started in the order of their units."""
        machine = RunningFleet(
            tmp_path_factory.mktemp("units"), environment_of(postgresql_server, redis_url)
        )
        told = dict(
            re.findall(
                r"^(\w+)=(.*)$", (DEPLOY / "systemd/tunebook.env.example").read_text(), re.MULTILINE
            )
        )
        told["TUNEBOOK_BOARDS"] = BOARDS
        try:
            upgrade, coordinator = of_unit("tunebook-coordinator", told)
            done = machine.run(["tunebook", *upgrade])
            assert done.returncode == 0, done.stderr
            machine.start("coordinator", coordinator)
            for name in ("tracker", "worker"):
                (words,) = of_unit(f"tunebook-{name}", told)
                machine.start(name, words)
            eventually(lambda: ready(machine), "the coordinator is ready")
            eventually(lambda: '"ready"' in machine.log("worker"), "the worker is ready")
            yield machine
        finally:
            codes = machine.stop()
        assert codes == {"coordinator": 0, "tracker": 0, "worker": 0}

    def test_the_nightly_service_asks_the_coordinator_of_its_machine_without_a_token(
        self, machine: RunningFleet
    ) -> None:
        """An empty night, since tuning is tested elsewhere: what it lacks is told by its file."""
        (words,) = of_unit("tunebook-nightly", {})
        (file,) = (word for word in words if word.endswith(".toml"))
        night = machine.folder / "nightly.toml"
        night.write_text('name = "empty"\n[budget]\ntrials = 1\n')
        done = machine.run(["tunebook", *(str(night) if word == file else word for word in words)])
        assert done.returncode == 2
        assert "nightly.toml" in done.stderr

    def test_the_backup_service_keeps_backups_of_what_runs(self, machine: RunningFleet) -> None:
        if shutil.which("pg_dump") is None:
            pytest.skip("no pg_dump is installed")
        (words,) = of_unit("tunebook-backup", {})
        done = machine.run(["tunebook", *words])
        assert done.returncode == 0, done.stderr
        assert len(list((machine.folder / "backups").glob("20*/database.dump"))) == 1


class TestScripts:
    @pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
    def urls(self, request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
        """A database, and a place for another of its kind."""
        if request.param == "sqlite":
            return str(tmp_path / "tunebook.db"), str(tmp_path / "restored.db")
        if shutil.which("pg_dump") is None:
            pytest.skip("no pg_dump is installed")
        server: PostgresqlServer = request.getfixturevalue("postgresql_server")
        return str(request.getfixturevalue("postgresql_url")), server.empty_database()

    @pytest.fixture
    def programs(self, tmp_path: Path) -> dict[str, str]:
        """An environment in which `tunebook` is this one's, and `docker` notes what it is told."""
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, does in (
            ("tunebook", f'exec {shlex.join(tunebook())} "$@"'),
            ("docker", f'echo "$@" >> {shlex.quote(str(tmp_path / "told"))}'),
        ):
            (folder / name).write_text(f"#!/bin/sh\n{does}\n")
            (folder / name).chmod(0o755)
        return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}

    def test_a_look_up_hits_after_a_backup_and_a_restore(
        self, urls: tuple[str, str], programs: dict[str, str], tmp_path: Path
    ) -> None:
        url, elsewhere = urls
        with Store.open(url) as store:
            key = serve(store, conv())
            backups = [tmp_path / "backups", "--models", tmp_path / "models"]
            subprocess.run(
                [DEPLOY / "backup", *backups, "--db", url], env=programs, check=True, timeout=60
            )
        restore = [DEPLOY / "restore", *backups, "--db", elsewhere]
        subprocess.run(restore, env=programs, check=True, timeout=60)
        with Store.open(elsewhere) as store:
            assert list(store.lookup([key]).hits) == [key]

    def test_under_compose_what_uses_the_database_rests_while_it_is_restored(
        self, programs: dict[str, str], tmp_path: Path
    ) -> None:
        for script, more in (("backup", []), ("restore", ["--overwrite"])):
            subprocess.run([DEPLOY / script, "compose", *more], env=programs, check=True)
        restore = "db restore /backups --models /var/lib/tunebook/models --overwrite"
        assert (tmp_path / "told").read_text().splitlines() == [
            "compose run --rm backup",
            "compose stop worker coordinator",
            f"compose run --rm restore {restore}",
            "compose up --detach",
        ]
        assert shlex.split(restore)[:-1] == SERVICES["restore"]["command"]

    def test_a_linter_of_shell_scripts_has_nothing_to_say(self) -> None:
        if shutil.which("shellcheck") is None:
            pytest.skip("no shellcheck is installed")
        scripts = [
            path
            for path in DEPLOY.iterdir()
            if path.is_file() and path.read_bytes().startswith(b"#!/bin/sh")
        ]
        assert {"backup", "restore"} <= {path.name for path in scripts}
        done = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return bytes(answer.read())


def answer_of(address: str, query: str) -> list[tuple[str, str]]:
    """The job and value of each sample that Prometheus has now; nothing while it starts."""
    try:
        found = json.loads(fetched(f"http://{address}/api/v1/query?query={query}"))
    except OSError:
        return []
    return [(one["metric"]["job"], one["value"][1]) for one in found["data"]["result"]]
