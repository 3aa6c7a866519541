"""deploy/backup and deploy/restore, run for real on both kinds of database."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from cache_samples import conv, serve
from deploy_files import DEPLOY
from deploy_services import SERVICES
from deployed_fleet import tunebook
from postgresql_server import PostgresqlServer

from tunebook.cache.store import Store


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """A database, and a place for another of its kind."""
    if request.param == "sqlite":
        return str(tmp_path / "tunebook.db"), str(tmp_path / "restored.db")
    if shutil.which("pg_dump") is None:
        pytest.skip("no pg_dump is installed")
    server: PostgresqlServer = request.getfixturevalue("postgresql_server")
    return str(request.getfixturevalue("postgresql_url")), server.empty_database()


@pytest.fixture
def programs(tmp_path: Path) -> dict[str, str]:
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
    urls: tuple[str, str], programs: dict[str, str], tmp_path: Path
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
    programs: dict[str, str], tmp_path: Path
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


def test_a_linter_of_shell_scripts_has_nothing_to_say() -> None:
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
