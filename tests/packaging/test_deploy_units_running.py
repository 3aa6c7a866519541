"""The services of one machine work together as their units start them, without systemd."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator

import pytest
from deploy_files import DEPLOY
from deploy_services import BOARDS, of_unit
from deployed_fleet import DeployedFleet
from postgresql_server import PostgresqlServer


@pytest.fixture(scope="module")
def machine(
    postgresql_server: PostgresqlServer,
    redis_url: str,
    tmp_path_factory: pytest.TempPathFactory,
    eventually: Callable[..., None],
) -> Iterator[DeployedFleet]:
    """The services of one machine, started in the order of their units."""
    machine = DeployedFleet(
        tmp_path_factory.mktemp("units"), postgresql_server.empty_database(), redis_url
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
        eventually(machine.is_ready, "the coordinator is ready")
        eventually(lambda: '"ready"' in machine.log("worker"), "the worker is ready")
        eventually(machine.has_tracker, "the tracker answers")
        yield machine
    finally:
        codes = machine.stop()
    assert codes == {"coordinator": 0, "tracker": 0, "worker": 0}


def test_the_nightly_service_reads_its_night_and_says_what_it_lacks(machine: DeployedFleet) -> None:
    """An empty one: whole nights are tested in end_to_end/."""
    (words,) = of_unit("tunebook-nightly", {})
    (file,) = (word for word in words if word.endswith(".toml"))
    night = machine.folder / "nightly.toml"
    night.write_text('name = "empty"\n[budget]\ntrials = 1\n')
    done = machine.run(["tunebook", *(str(night) if word == file else word for word in words)])
    assert done.returncode == 2
    assert "nightly.toml" in done.stderr


def test_the_backup_service_keeps_backups_of_what_runs(machine: DeployedFleet) -> None:
    if shutil.which("pg_dump") is None:
        pytest.skip("no pg_dump is installed")
    (words,) = of_unit("tunebook-backup", {})
    done = machine.run(["tunebook", *words])
    assert done.returncode == 0, done.stderr
    assert len(list((machine.folder / "backups").glob("20*/database.dump"))) == 1
