"""How a database is found, made, and refused."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from cache_samples import (
    candidates,
    claim_new_round,
    conv,
    model_of,
    run_sql,
    serve,
    start_job,
    success,
)
from processes import run_at_once
from released_schemas import OLD_KEY, OLD_MODEL, released
from sqlalchemy import Engine, create_engine, event

from tunebook.cache.errors import DatabaseError
from tunebook.cache.likeness import UNKNOWN, Likeness
from tunebook.cache.records import Workload
from tunebook.cache.storage import schema
from tunebook.cache.storage.database import default_path, parse_url, upgrade
from tunebook.cache.storage.tables import Base
from tunebook.cache.store import Store


def one_line(error: pytest.ExceptionInfo[DatabaseError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


class TestFindingADatabase:
    def test_a_sqlite_file_is_made_with_its_folder(self, tmp_path: Path) -> None:
        path = tmp_path / "new" / "folder" / "tunebook.db"
        with Store.open(str(path)) as store:
            store.save_model(model_of([conv()]))
        assert path.exists()

    def test_without_a_url_the_users_data_folder_is_used(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
        Store.open().close()
        assert default_path() == tmp_path / "tunebook" / "tunebook.db"
        assert default_path().exists()

    def test_a_sqlite_url_is_the_same_as_its_path(self, tmp_path: Path) -> None:
        path = tmp_path / "tunebook.db"
        with Store.open(str(path)) as by_path, Store.open(f"sqlite:///{path}") as by_url:
            assert by_path.save_model(model_of([conv()])) == by_url.save_model(model_of([conv()]))

    def test_what_was_stored_is_there_when_opened_again(self, sqlite_url: str) -> None:
        with Store.open(sqlite_url) as store:
            key = serve(store, conv())
        with Store.open(sqlite_url, read_only=True) as store:
            assert list(store.lookup([key]).hits) == [key]

    @pytest.mark.parametrize("name", ["what?.db", "a#1.db", "50%25.db", "a b&mode=rw.db", "ü.db"])
    def test_a_file_of_any_name_is_read_and_written(self, tmp_path: Path, name: str) -> None:
        path = str(tmp_path / name)
        with Store.open(path) as store:
            key = serve(store, conv())
        with Store.open(path, read_only=True) as store:
            assert list(store.lookup([key]).hits) == [key]
        made = {file.name.removesuffix("-wal").removesuffix("-shm") for file in tmp_path.iterdir()}
        assert made == {name}

    def test_many_processes_may_make_the_same_file_at_once(self, tmp_path: Path) -> None:
        path = str(tmp_path / "tunebook.db")
        assert run_at_once(6, "create", path) == [path] * 6

    def test_the_log_is_ahead_of_the_file_and_writers_wait(self, sqlite_url: str) -> None:
        seen: dict[str, Any] = {}

        def look(connection: Any, *_: Any) -> None:
            for pragma in ("journal_mode", "busy_timeout", "synchronous", "foreign_keys"):
                seen[pragma] = connection.execute(f"PRAGMA {pragma}").fetchone()[0]

        event.listen(Engine, "checkout", look)
        try:
            with Store.open(sqlite_url) as store:
                store.save_model(model_of([conv()]))
        finally:
            event.remove(Engine, "checkout", look)
        assert seen == {
            "journal_mode": "wal",
            "busy_timeout": 30_000,
            "synchronous": 1,
            "foreign_keys": 1,
        }


class TestRefusingADatabase:
    @pytest.mark.parametrize(
        ("url", "told"),
        [
            ("mysql://host/x", "mysql database is not supported"),
            ("://", "is no database URL"),
            ("postgresql://me:sec/secret@host:x/y", "is no database URL"),
            ("postgresql://me:sec:secret@host:x/y", "is no database URL"),
            ("postgresql://me:sec@secret@host/y", "is no database URL.* password as %40"),
            ("postgresql://127.0.0.1:1/x?user=me&password=secret", "cannot be reached"),
            ("sqlite://", "in memory cannot be shared"),
            ("/proc/nowhere/tunebook.db", "cannot create the folder"),
            ("postgresql://me:secret@127.0.0.1:1/x", "cannot be reached"),
            ("postgresql://me:secret@no-such-host.invalid/x", "cannot be reached"),
        ],
    )
    def test_a_url_that_leads_nowhere_is_told_in_one_line(self, url: str, told: str) -> None:
        with pytest.raises(DatabaseError, match=told) as error:
            Store.open(url)
        assert "secret" not in one_line(error)

    def test_reading_where_nothing_is_does_not_make_a_file(self, tmp_path: Path) -> None:
        with pytest.raises(DatabaseError, match="no database"):
            Store.open(str(tmp_path / "tunebook.db"), read_only=True)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        "content", [b"not a database\n" * 100, b"SQLite format 3\0" + b"x" * 999]
    )
    def test_a_file_that_is_no_database_is_left_as_it_is(
        self, tmp_path: Path, content: bytes
    ) -> None:
        path = tmp_path / "file"
        path.write_bytes(content)
        with pytest.raises(DatabaseError, match=r"is not a database|damaged") as error:
            Store.open(str(path))
        one_line(error)
        assert path.read_bytes() == content

    def test_a_database_of_somebody_else_is_left_as_it_is(self, tmp_path: Path) -> None:
        path = tmp_path / "other.db"
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE photos (id INTEGER)")
        with pytest.raises(DatabaseError, match="not a Tunebook database"):
            Store.open(str(path))
        with pytest.raises(DatabaseError, match="not a Tunebook database"):
            upgrade(str(path))

    @pytest.mark.parametrize("call", [Store.open, upgrade])
    def test_a_newer_database_names_both_versions_and_the_command(
        self, sqlite_url: str, call: Any
    ) -> None:
        run_sql(sqlite_url, "UPDATE alembic_version SET version_num = '0099'")
        with pytest.raises(DatabaseError) as error:
            call(sqlite_url)
        text = one_line(error)
        assert "0099" in text and schema.HEAD in text and "tunebook db upgrade" in text

    def test_an_older_database_names_the_command_that_mends_it(self, tmp_path: Path) -> None:
        path = str(tmp_path / "old.db")
        released(path, "0001")
        with pytest.raises(DatabaseError, match=r"schema 0001, older than .*db upgrade"):
            Store.open(str(path))

    def test_what_a_workload_of_before_is_like_is_noted_when_its_model_is_split_again(
        self, tmp_path: Path
    ) -> None:
        path = str(tmp_path / "old.db")
        released(path, "0001")
        upgrade(path)
        likeness = Likeness("structure", "anchor", "{}", "[]")
        known = Workload(OLD_KEY.workload, "tir", 1.0, likeness)
        with Store.open(str(path)) as store:
            assert store.workload(OLD_KEY.workload).likeness == UNKNOWN
            assert model_of([known]).digest == OLD_MODEL.digest
            store.save_model(model_of([known]))
            assert store.workload(OLD_KEY.workload).likeness == likeness

    @pytest.mark.postgresql
    def test_an_empty_server_database_names_the_command_that_fills_it(
        self, empty_postgresql_url: str
    ) -> None:
        with pytest.raises(DatabaseError, match="empty; run `tunebook db upgrade`"):
            Store.open(empty_postgresql_url)
        assert upgrade(empty_postgresql_url) == (None, schema.HEAD)
        Store.open(empty_postgresql_url).close()


class TestFaults:
    def test_what_sqlite_stores_as_another_type_is_refused(self, sqlite_url: str) -> None:
        with Store.open(sqlite_url) as store:
            key = serve(store, conv())
            run_sql(sqlite_url, "UPDATE records SET trace = CAST(trace AS BLOB)")
            run_sql(sqlite_url, "UPDATE workloads SET tir = 'text'")
            assert store.lookup([key]).hits == {}
            assert store.interchange.replayed_traces(key) == frozenset()
            with pytest.raises(DatabaseError, match="is damaged") as error:
                store.workload(key.workload)
        one_line(error)

    def test_a_store_opened_for_reading_cannot_write(self, sqlite_url: str) -> None:
        with (
            Store.open(sqlite_url, read_only=True) as store,
            pytest.raises(DatabaseError, match="read-only") as error,
        ):
            store.save_model(model_of([conv()]))
        one_line(error)

    def test_a_file_that_may_not_be_written_serves_look_ups_and_refuses_writes(
        self, readable_by_all: Path
    ) -> None:
        with Store.open(str(readable_by_all)) as store:
            key = serve(store, conv())
        readable_by_all.chmod(0o444)
        readable_by_all.parent.chmod(0o555)

        def use() -> str:
            with Store.open(str(readable_by_all), read_only=True) as store:
                assert list(store.lookup([key]).hits) == [key]
            with Store.open(str(readable_by_all)) as store:
                store.save_model(model_of([conv(7)]))
            return "written"

        text = as_somebody_else(use)
        assert re.search(r"DatabaseError: the database .* is read-only", text)

    def test_a_full_disk_is_told_and_loses_nothing(self, sqlite_url: str) -> None:
        with Store.open(sqlite_url) as store:
            job = start_job(store)
            claimed = claim_new_round(store, job)
        limit = pages_of(sqlite_url) + 1
        huge = "x" * 100_000

        def fill(connection: Any, _: Any) -> None:
            connection.execute(f"PRAGMA max_page_count = {limit}")

        event.listen(Engine, "connect", fill)
        try:
            with Store.open(sqlite_url) as store:
                with pytest.raises(DatabaseError, match="no room left") as error:
                    store.store_candidates(claimed.id, claimed.epoch, candidates("a", trace=huge))
                one_line(error)
                assert store.find_model("x", "y", "z", "c") is None
        finally:
            event.remove(Engine, "connect", fill)
        with Store.open(sqlite_url) as store:
            (slot,) = store.store_candidates(claimed.id, claimed.epoch, candidates("a"))
            store.store_result(claimed.id, claimed.epoch, slot.number, success(1.0))
            assert store.budget(job).spent == 1


class TestMigrations:
    def test_head_is_the_newest_revision(self) -> None:
        config = Config()
        config.set_main_option("script_location", "tunebook.cache:migrations")
        script = ScriptDirectory.from_config(config)
        assert script.get_heads() == [schema.HEAD]
        older = [revision.revision for revision in script.walk_revisions()][:0:-1]
        assert tuple(older) == schema.OLDER

    def test_the_migrations_make_the_tables_on_sqlite(self, sqlite_url: str) -> None:
        assert differences_from_tables(sqlite_url) == []

    @pytest.mark.postgresql
    def test_the_migrations_make_the_tables_on_postgresql(self, postgresql_url: str) -> None:
        assert differences_from_tables(postgresql_url) == []

    @pytest.mark.parametrize("kind", ["sqlite", pytest.param("pg", marks=pytest.mark.postgresql)])
    def test_several_that_upgrade_one_at_once_do_it_once(
        self, kind: str, tmp_path: Path, request: pytest.FixtureRequest
    ) -> None:
        url = str(tmp_path / "tunebook.db")
        if kind == "pg":
            url = request.getfixturevalue("postgresql_server").empty_database()
        before = run_at_once(3, "upgrade", url)
        assert sorted(before, key=str) == [schema.HEAD, schema.HEAD, None]

    def test_upgrading_what_is_new_already_changes_nothing(self, sqlite_url: str) -> None:
        with Store.open(sqlite_url) as store:
            key = serve(store, conv())
        assert upgrade(sqlite_url) == (schema.HEAD, schema.HEAD)
        with Store.open(sqlite_url) as store:
            assert list(store.lookup([key]).hits) == [key]


def differences_from_tables(url: str) -> list[Any]:
    engine = create_engine(parse_url(url))
    with engine.connect() as connection:
        found = compare_metadata(MigrationContext.configure(connection), Base.metadata)
    engine.dispose()
    return found


def pages_of(path: str) -> int:
    with sqlite3.connect(path) as connection:
        return int(connection.execute("PRAGMA page_count").fetchone()[0])


@pytest.fixture
def readable_by_all(sqlite_template: Path) -> Iterator[Path]:
    """A database in a folder that other users may enter, unlike those of tmp_path."""
    folder = Path(tempfile.mkdtemp(prefix="tb-"))
    folder.chmod(0o755)
    yield Path(shutil.copy(sqlite_template, folder))
    folder.chmod(0o755)
    shutil.rmtree(folder)


def as_somebody_else(action: Any) -> str:
    """What an action gives or raises in a process that is not root: root may write everywhere."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            text = action()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text
