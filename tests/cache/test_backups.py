"""Backups of databases that are used, restored into nothing, on both kinds of database."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from cache_samples import conv, run_sql, serve
from queue_samples import SERVED
from released_schemas import OLD_KEY, released
from sqlalchemy import create_engine, text

from tunebook.cache.access.tokens import Role
from tunebook.cache.errors import DatabaseError
from tunebook.cache.model_files import ModelFiles
from tunebook.cache.storage import schema
from tunebook.cache.storage.database import Database, parse_url, upgrade
from tunebook.cache.store import Store
from tunebook.cache.upkeep import restore as restore_module
from tunebook.cache.upkeep.backup import Backup, back_up, backups_in, remove_older
from tunebook.cache.upkeep.manifest import MANIFEST
from tunebook.cache.upkeep.restore import restore
from tunebook.cache.upkeep.sqlite_copies import copy_to_file

MOMENT = datetime(2026, 11, 30, 5, 0, tzinfo=timezone.utc)
BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]
# Each trial that was charged has its record, and each budget counts its own.
UNEVEN = {
    "trials that no budget counts": """
        SELECT (SELECT count(*) FROM slots WHERE charged) - (SELECT sum(spent) FROM budgets)""",
    "records without their trial": """
        SELECT count(*) FROM records WHERE NOT EXISTS
            (SELECT 1 FROM slots WHERE slots.record_id = records.id)""",
    "schedules without their record": """
        SELECT count(*) FROM schedules WHERE NOT EXISTS
            (SELECT 1 FROM records WHERE records.id = schedules.record_id AND verified)""",
}


@pytest.fixture(params=BOTH)
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "postgresql" and shutil.which("pg_dump") is None:
        pytest.skip("no pg_dump is installed")
    return str(request.param)


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{kind}_url"))


@pytest.fixture
def target(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of the same kind in which there is nothing."""
    if kind == "sqlite":
        return str(tmp_path / "elsewhere" / "restored.db")
    return str(request.getfixturevalue("postgresql_server").empty_database())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "backups"


@pytest.fixture
def models(tmp_path: Path) -> ModelFiles:
    files = ModelFiles(str(tmp_path / "models"))
    files.check()
    return files


def add_model(files: ModelFiles, name: bytes) -> str:
    content = b"\x08\x08\x12" + name
    digest = hashlib.sha256(content).hexdigest()
    with files.upload(digest) as upload:
        upload.write(content)
        upload.finish()
    return digest


def number(url: str, statement: str) -> int:
    engine = create_engine(parse_url(url))
    try:
        with engine.connect() as connection:
            return int(connection.execute(text(statement)).scalar_one() or 0)
    finally:
        engine.dispose()


@contextmanager
def writing(url: str) -> Iterator[Callable[[], int]]:
    """Somebody who stores one record after the other meanwhile; gives how many."""
    stop, stored = threading.Event(), []

    def write() -> None:
        with Store.open(url) as store:
            while not stop.is_set():
                stored.append(serve(store, conv(7 + len(stored))))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield lambda: len(stored)
    finally:
        stop.set()
        thread.join()


def made(url: str, place: Path, models: ModelFiles | None = None) -> Backup:
    return back_up(url, place, models, MOMENT)


class TestBackUpAndRestore:
    def test_a_look_up_hits_in_what_was_restored(
        self, url: str, target: str, place: Path, models: ModelFiles, tmp_path: Path
    ) -> None:
        digest = add_model(models, b"net")
        with Store.open(url) as store:
            key = serve(store, conv())
            token = store.tokens.create("ci", Role.READ)
        backup = made(url, place, models)
        assert (backup.manifest.models, backup.new_models) == ([digest], 1)
        there = ModelFiles(str(tmp_path / "restored-models"))
        done = restore(place, target, there)
        assert (done.backup, done.new_models) == (backup.folder, 1)
        assert b"".join(there.read(digest)) == b"\x08\x08\x12net"
        with Store.open(target) as store:
            assert list(store.lookup([key]).hits) == [key]
            assert store.tokens.authenticate(token.secret) == token.token
            # Its next rows have numbers of their own.
            serve(store, conv(14))

    def test_what_others_write_meanwhile_is_there_wholly_or_not_at_all(
        self, url: str, target: str, place: Path, eventually: Callable[..., None]
    ) -> None:
        with writing(url) as stored:
            eventually(lambda: stored() > 3, "something is written")
            before = stored()
            made(url, place)
            after = stored()
        restore(place, target, None)
        assert {what: number(target, uneven) for what, uneven in UNEVEN.items()} == dict.fromkeys(
            UNEVEN, 0
        )
        assert before <= number(target, "SELECT count(*) FROM schedules") <= after + 1

    def test_a_backup_of_an_older_schema_is_restored_and_brought_forward(
        self, kind: str, request: pytest.FixtureRequest, target: str, place: Path, tmp_path: Path
    ) -> None:
        old = str(tmp_path / "old.db")
        if kind == "postgresql":
            old = request.getfixturevalue("postgresql_server").empty_database()
        released(old, "0003")
        assert made(old, place).manifest.schema_version == "0003"
        restore(place, target, None)
        assert upgrade(target) == ("0003", schema.HEAD)
        with Store.open(target) as store:
            assert list(store.lookup([OLD_KEY]).hits) == [OLD_KEY]

    def test_what_was_sealed_before_is_no_longer_known_for_ours(
        self, url: str, target: str, place: Path
    ) -> None:
        with Store.open(url) as store:
            before = store.shared_secret("answers")
            made(url, place)
            assert store.shared_secret("answers") == before
        files = [file for file in place.rglob("*") if file.is_file()]
        assert not any(before.hex().encode() in file.read_bytes() for file in files)
        restore(place, target, None)
        with Store.open(target) as store:
            assert store.shared_secret("answers") != before


class TestOverwriting:
    def test_a_database_that_is_not_empty_is_left_as_it_is(self, url: str, place: Path) -> None:
        made(url, place)
        with Store.open(url) as store:
            key = serve(store, conv())
        with pytest.raises(DatabaseError, match=r"is not empty; give another one .*--overwrite"):
            restore(place, url, None)
        with Store.open(url) as store:
            assert list(store.lookup([key]).hits) == [key]

    def test_told_to_it_takes_the_place_of_all_there_was_for_everybody(
        self, url: str, place: Path
    ) -> None:
        with Store.open(url) as store:
            kept = serve(store, conv())
            made(url, place)
            lost = serve(store, conv(14))
            run_sql(url, "CREATE TABLE of_a_newer_version (id INTEGER)")
            restore(place, url, None, overwrite=True)
            assert list(store.lookup([kept, lost]).hits) == [kept]
        with pytest.raises(Exception, match="of_a_newer_version"):
            number(url, "SELECT count(*) FROM of_a_newer_version")

    def test_not_while_workers_are_alive(
        self, url: str, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made(url, place)
        with Store.open(url) as store:
            store.fleet.announce("worker", [SERVED])

            def require_nobody(_: object) -> None:
                raise DatabaseError("worker at work")

            # Looking takes as long as a beat has to stand still.
            monkeypatch.setattr(restore_module, "require_nobody_at_work", require_nobody)
            with pytest.raises(DatabaseError, match="worker at work"):
                restore(place, url, None, overwrite=True)
            restore(place, url, None, overwrite=True, despite_workers=True)
            assert store.fleet.workers() == ()

    def test_a_database_of_somebody_else_is_never_overwritten(
        self, url: str, target: str, place: Path, kind: str
    ) -> None:
        made(url, place)
        if kind == "sqlite":
            Path(target).parent.mkdir()
        run_sql(target, "CREATE TABLE photos (id INTEGER)")
        with pytest.raises(DatabaseError, match="not a Tunebook database"):
            restore(place, target, None, overwrite=True)
        assert number(target, "SELECT count(*) FROM photos") == 0

    @pytest.mark.postgresql
    def test_one_that_fails_half_way_has_changed_nothing(
        self, empty_postgresql_url: str, place: Path
    ) -> None:
        url = empty_postgresql_url
        upgrade(url)
        made(url, place)
        with Store.open(url) as store:
            key = serve(store, conv())
        # Something else has the name of an index, which is made after the tables are filled.
        run_sql(url, "DROP INDEX ix_schedules_target")
        run_sql(url, "CREATE SEQUENCE ix_schedules_target")
        with pytest.raises(DatabaseError, match="psql failed"):
            restore(place, url, None, overwrite=True)
        with Store.open(url) as store:
            assert list(store.lookup([key]).hits) == [key]


class TestAPlaceOfBackups:
    def test_a_model_lies_there_once(
        self, sqlite_url: str, place: Path, models: ModelFiles
    ) -> None:
        first, second = add_model(models, b"first"), add_model(models, b"second")
        assert back_up(sqlite_url, place, models, MOMENT).new_models == 2
        third = add_model(models, b"third")
        later = back_up(sqlite_url, place, models, MOMENT + timedelta(days=1))
        assert later.new_models == 1
        assert set(later.manifest.models) == {first, second, third}
        assert set(ModelFiles(str(place / "models")).digests()) == {first, second, third}

    def test_the_newest_is_restored_and_older_ones_are_removed_when_asked(
        self, sqlite_url: str, place: Path, tmp_path: Path
    ) -> None:
        made_on = [
            back_up(sqlite_url, place, None, MOMENT + timedelta(days=day)).folder
            for day in range(4)
        ]
        assert restore(place, str(tmp_path / "a.db"), None).backup == made_on[-1]
        assert restore(made_on[1], str(tmp_path / "b.db"), None).backup == made_on[1]
        assert remove_older(place, 2) == made_on[:2]
        assert backups_in(place) == made_on[2:]

    def test_one_that_was_moved_elsewhere_and_linked_stays_there(
        self, sqlite_url: str, place: Path, tmp_path: Path
    ) -> None:
        first = made(sqlite_url, place).folder
        moved = first.rename(tmp_path / "moved")
        first.symlink_to(moved)
        second = back_up(sqlite_url, place, None, MOMENT + timedelta(days=1)).folder
        remove_older(place, 1)
        assert backups_in(place) == [second]
        assert restore(moved, str(tmp_path / "a.db"), None).backup == moved

    def test_what_is_left_of_one_that_was_killed_goes_a_day_later(
        self, sqlite_url: str, place: Path
    ) -> None:
        left, young = place / ".2026-11-29T04-59-59Z", place / ".2026-11-29T05-00-00Z"
        for part in (left, young, place / ".of-somebody-else"):
            part.mkdir(parents=True)
        (left / "database.sqlite").write_bytes(b"half")
        folder = made(sqlite_url, place).folder
        assert sorted(one.name for one in place.iterdir()) == sorted(
            [young.name, ".of-somebody-else", folder.name]
        )

    def test_that_the_place_has_no_room_is_not_blamed_on_the_database(
        self, sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A disk is filled by a limit of SQLite's own, which a connection is given."""
        connect = sqlite3.connect

        def connect_to_a_full_disk(*arguments: Any, **options: Any) -> sqlite3.Connection:
            connection = connect(*arguments, **options)
            connection.execute("PRAGMA max_page_count = 2")
            return connection

        monkeypatch.setattr(sqlite3, "connect", connect_to_a_full_disk)
        copy = tmp_path / "copy.sqlite"
        with (
            closing(Database.open_any(sqlite_url, read_only=True)) as database,
            pytest.raises(DatabaseError, match=f"the copy {copy} finds no room"),
        ):
            copy_to_file(database, copy)

    def test_nobody_else_may_read_a_backup(self, sqlite_url: str, place: Path) -> None:
        assert made(sqlite_url, place).folder.stat().st_mode & 0o077 == 0

    def test_a_model_that_is_damaged_is_told_and_no_backup_made(
        self, sqlite_url: str, place: Path, models: ModelFiles, tmp_path: Path
    ) -> None:
        digest = add_model(models, b"net")
        (tmp_path / "models" / digest[:2] / digest).write_bytes(b"\x08\x08\x12other")
        with pytest.raises(DatabaseError, match=f"the model {digest} is damaged"):
            made(sqlite_url, place, models)
        assert backups_in(place) == []

    @pytest.mark.parametrize("url", ["absent.db", "postgresql://me:secret@127.0.0.1:1/x"])
    def test_a_database_that_is_not_there_leaves_no_backup(
        self, url: str, place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(DatabaseError) as error:
            made(url, place)
        assert "secret" not in str(error.value)
        assert list(place.iterdir()) == []

    @pytest.mark.postgresql
    def test_without_postgresqls_programs_it_says_what_to_install(
        self, postgresql_url: str, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(place))
        with pytest.raises(DatabaseError, match=r"pg_dump is not installed.*postgresql-client"):
            made(postgresql_url, place)


class TestRefusingABackup:
    @pytest.fixture
    def backup(self, sqlite_url: str, place: Path) -> Path:
        return made(sqlite_url, place).folder

    def test_one_that_was_damaged(self, backup: Path, tmp_path: Path) -> None:
        with (backup / "database.sqlite").open("r+b") as file:
            file.seek(5000)
            file.write(b"damage")
        with pytest.raises(DatabaseError, match="is damaged: its SHA-256 is another"):
            restore(backup, str(tmp_path / "restored.db"), None)
        assert not (tmp_path / "restored.db").exists()

    def test_one_of_a_newer_version(self, backup: Path, tmp_path: Path) -> None:
        manifest = backup / MANIFEST
        manifest.write_text(manifest.read_text().replace(schema.HEAD, "0099"))
        with pytest.raises(DatabaseError, match="has schema 0099, newer than"):
            restore(backup, str(tmp_path / "restored.db"), None)

    def test_one_of_another_kind_of_database(self, backup: Path) -> None:
        with pytest.raises(DatabaseError, match="of a sqlite database"):
            restore(backup, "postgresql://me@127.0.0.1:1/x", None)

    def test_a_folder_that_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(DatabaseError, match="is no backup and holds none"):
            restore(tmp_path, str(tmp_path / "restored.db"), None)
