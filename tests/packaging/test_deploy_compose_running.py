"""The services of compose.yaml work together, each with what its image has installed: without
containers, on PostgreSQL and Redis, with a board, and read by Prometheus."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cache_samples import conv, serve
from deploy_files import DEPLOY
from deploy_services import BOARDS, IMAGES, SERVICES, extras_of
from deployed_fleet import DeployedFleet
from local_ports import free_port
from postgresql_server import PostgresqlServer

from tunebook.cache.access.tokens import Role
from tunebook.cache.store import Store

BOARD = ["--class", BOARDS, "--name", "board-1", "--tracker", "tracker:9190"]


def in_image(fleet: DeployedFleet, name: str) -> dict[str, str]:
    """An environment with what an image has installed, and nothing else."""
    return fleet.with_only(extras_of(name))


@pytest.fixture(scope="module")
def fleet(
    postgresql_server: PostgresqlServer,
    redis_url: str,
    tmp_path_factory: pytest.TempPathFactory,
    eventually: Callable[..., None],
) -> Iterator[DeployedFleet]:
    """All services of ours, in the order in which they wait for each other."""
    fleet = DeployedFleet(
        tmp_path_factory.mktemp("compose"), postgresql_server.empty_database(), redis_url
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
        eventually(fleet.is_ready, "the coordinator is ready")
        (file,) = fleet.here(["/tokens/worker/token"])
        worker = in_image(fleet, "worker") | {"TUNEBOOK_TOKEN_FILE": file}
        fleet.start("worker", SERVICES["worker"]["command"], **worker)
        with Store.open(fleet.database_url) as store:
            token = store.tokens.create("board-1", Role.BOARD, f"{BOARDS}/board-1").secret
        board = ["board", *BOARD, "--coordinator", "http://coordinator:8470"]
        fleet.start("board", board, TUNEBOOK_TOKEN=token, **in_image(fleet, "board"))
        eventually(lambda: '"ready"' in fleet.log("worker"), "the worker is ready")
        eventually(lambda: "is registered" in fleet.log("board"), "the board is registered")
        yield fleet
    finally:
        codes = fleet.stop()
    assert codes == {"coordinator": 0, "tracker": 0, "worker": 0, "board": 0}


@pytest.fixture(scope="module")
def token(fleet: DeployedFleet) -> str:
    """The one that was made for Prometheus."""
    return Path(fleet.here(["/tokens/prometheus/token"])[0]).read_text().strip()


@pytest.mark.parametrize(
    ("image", "lacks"), [("coordinator", "tvm"), ("worker", "fastapi"), ("board", "xgboost")]
)
def test_each_ran_with_no_more_than_its_image_has(
    fleet: DeployedFleet, image: str, lacks: str
) -> None:
    done = fleet.run(["python", "-c", f"import {lacks}"], **in_image(fleet, image))
    assert f"No module named '{lacks}'" in done.stderr


def test_each_part_is_healthy_by_its_own_check(
    fleet: DeployedFleet, eventually: Callable[..., None]
) -> None:
    checks = [
        IMAGES["coordinator"].command("HEALTHCHECK"),
        IMAGES["worker"].command("HEALTHCHECK"),
        IMAGES["board"].command("HEALTHCHECK"),
        SERVICES["tracker"]["healthcheck"]["test"][1:],
    ]
    for check in checks:
        # Each has a time limit of its own, within which a machine that pauses may not answer.
        eventually(lambda check=check: fleet.run(check).returncode == 0, " ".join(check))


def test_the_metrics_tell_of_the_worker_its_board_and_redis(
    fleet: DeployedFleet, token: str, eventually: Callable[..., None]
) -> None:
    wanted = (
        f'\ntunebook_boards{{board_class="{BOARDS}"}} 1.0\n',
        "\ntunebook_workers 1.0\n",
        "\ntunebook_redis_up 1.0\n",
    )

    def are_told() -> bool:
        _, text = fleet.get("/metrics", token)
        return all(line in text for line in wanted)

    eventually(are_told, "the worker has the board, and Redis is there")


def test_the_workers_token_fetches_models_and_nothing_is_read_without_one(
    fleet: DeployedFleet,
) -> None:
    secret = Path(fleet.here(["/tokens/worker/token"])[0]).read_text().strip()
    path = f"/api/v1/models/{'0' * 64}"
    assert fleet.get(path, secret)[0] == 404
    assert fleet.get(path)[0] == 401
    assert fleet.get("/metrics")[0] == 401


def test_a_token_that_is_good_is_kept_and_one_that_is_not_is_replaced(
    fleet: DeployedFleet, token: str
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
    fleet: DeployedFleet, tmp_path: Path, eventually: Callable[..., None]
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
        # A scrape that takes longer than its second leaves nothing of the one before.
        eventually(
            lambda: answer_of(address, "tunebook_workers") == [("tunebook", "1")],
            "it knows how many workers there are",
        )
        # It reads what is to be scraped before what is to be alerted of.
        eventually(
            lambda: groups_of(address) >= {"tunebook-boards", "tunebook-parts"},
            "it has read the alerts",
        )
    finally:
        server.terminate()
        server.wait(timeout=60)


def test_the_backup_by_hand_is_restored_by_hand(
    fleet: DeployedFleet, postgresql_server: PostgresqlServer
) -> None:
    if shutil.which("pg_dump") is None:
        pytest.skip("no pg_dump is installed")
    url = fleet.database_url
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


def fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return bytes(answer.read())


def answer_of(address: str, query: str) -> list[tuple[str, str]]:
    """The job and value of each sample that Prometheus has now; nothing while it starts."""
    try:
        found = json.loads(fetched(f"http://{address}/api/v1/query?query={query}"))
    except OSError:
        return []
    return [(one["metric"]["job"], one["value"][1]) for one in found["data"]["result"]]


def groups_of(address: str) -> set[str]:
    """The groups of rules that Prometheus has now."""
    groups = json.loads(fetched(f"http://{address}/api/v1/rules"))["data"]["groups"]
    return {group["name"] for group in groups}
