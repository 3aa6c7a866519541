"""A real model tuned once over real RPC, built from the cache, and refused where it misses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tunebook.cache.errors import ExitCode
from tunebook.cache.store import Store
from tunebook.tuner.builds.compile_model import compile_model
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.llvm_targets import resolve_target

pytestmark = pytest.mark.slow

SHAPE = "input_2=1,24,24,3"
TRIALS = 30
OTHER_CPU = "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v2 -num-cores=2"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("main-job") / "tunebook.db"


@pytest.fixture(scope="module")
def tuned(tunebook: Any, rnet: Path, database: Path) -> Any:
    """The document of the first run, which everything below follows."""
    outcome = tunebook(
        *("tune", rnet, "--target", "host", "--shape", SHAPE),
        *("--trials", TRIALS, "--db", database, "--json"),
    )
    assert outcome.code == ExitCode.OK, outcome.err
    return outcome.document


def test_the_budget_is_spent_to_the_trial(tuned: Any) -> None:
    assert (tuned["trials"], tuned["trials_total"], tuned["trials_limit"]) == (TRIALS,) * 3
    assert sum(task["trials"] for task in tuned["tasks"]) == TRIALS


def test_every_task_has_a_schedule_and_an_untuned_time(tuned: Any) -> None:
    assert len(tuned["tasks"]) == 12
    for task in tuned["tasks"]:
        assert task["tuned_seconds"] > 0
        assert task["untuned_seconds"] > 0


def test_tuned_code_is_faster_than_untuned_code(tuned: Any) -> None:
    assert tuned["tuned_latency_seconds"] < tuned["untuned_latency_seconds"] / 1.5


def test_tuning_again_measures_nothing_and_says_so(
    tuned: Any, tunebook: Any, rnet: Path, database: Path
) -> None:
    outcome = tunebook(
        *("tune", rnet, "--target", "host", "--shape", SHAPE, "--trials", TRIALS, "--db", database)
    )
    assert outcome.code == ExitCode.OK
    assert "Nothing was measured: the budget is spent" in outcome.out


def test_a_look_up_hits_every_task(tuned: Any, tunebook: Any, rnet: Path, database: Path) -> None:
    outcome = tunebook(
        "lookup", rnet, "--target", "host", "--shape", SHAPE, "--db", database, "--json"
    )
    assert outcome.code == ExitCode.OK
    assert {hit["key"] for hit in outcome.document["hits"]} == {t["key"] for t in tuned["tasks"]}
    assert outcome.document["misses"] == []


def test_a_build_hits_every_task_and_agrees_with_onnxruntime(
    tuned: Any,
    rnet: Path,
    database: Path,
    tmp_path: Path,
    onnxruntime_says: Callable[..., list[Any]],
) -> None:
    with Store.open(str(database), read_only=True) as store:
        compiled = compile_model(
            read_model(rnet, {"input_2": (1, 24, 24, 3)}),
            resolve_target("host"),
            cache=store,
            output=tmp_path / "rnet",
        )
    assert compiled.hits == 12
    image = np.random.default_rng(0).standard_normal((1, 24, 24, 3)).astype("float32")
    for ours, theirs in zip(
        compiled.run({"input_2": image}), onnxruntime_says(rnet, {"input_2": image}), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    assert resolve_target("host").num_cores == compiled.manifest.threads, "cores were lost"


def test_the_manifest_names_the_record_of_every_task(
    tuned: Any, tunebook: Any, rnet: Path, database: Path, tmp_path: Path
) -> None:
    outcome = tunebook(
        *("build", rnet, "--target", "host", "--shape", SHAPE, "--db", database),
        *("-o", tmp_path / "rnet", "--json"),
    )
    assert outcome.code == ExitCode.OK, outcome.err
    manifest = json.loads(Path(outcome.document["manifest"]).read_text())
    assert manifest["model_digest"] == tuned["model"]
    assert {task["key"] for task in manifest["tasks"]} == {task["key"] for task in tuned["tasks"]}
    with Store.open(str(database), read_only=True) as store:
        for task in manifest["tasks"]:
            keys = [key for key in _keys(tuned) if str(key) == task["key"]]
            assert task["record_id"] in [record.id for record in store.records(keys[0])]


def test_a_build_that_misses_fails_with_reasons_and_leaves_no_file(
    tuned: Any, tunebook: Any, rnet: Path, database: Path, tmp_path: Path
) -> None:
    outcome = tunebook(
        *("build", rnet, "--target", OTHER_CPU, "--shape", SHAPE, "--db", database),
        *("-o", tmp_path / "missed"),
    )
    assert outcome.code == ExitCode.MISS
    assert outcome.err.startswith("error: 12 schedules are missing: 12 other-target")
    assert outcome.err.count("nearest: ") == 12
    assert "tunebook migrate" in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_a_build_may_warn_of_misses_and_go_on(
    tuned: Any, tunebook: Any, rnet: Path, database: Path, tmp_path: Path
) -> None:
    outcome = tunebook(
        *("build", rnet, "--target", OTHER_CPU, "--shape", SHAPE, "--db", database),
        *("-o", tmp_path / "warned", "--on-miss", "warn", "--json"),
    )
    assert outcome.code == ExitCode.OK, outcome.err
    assert outcome.document["hits"] == 0
    assert {miss["reason"] for miss in outcome.document["misses"]} == {"other-target"}
    assert (tmp_path / "warned.so").exists()


def test_more_adds_exactly_so_many_trials(
    tuned: Any, tunebook: Any, rnet: Path, tmp_path: Path, database: Path
) -> None:
    copy = tmp_path / "copy.db"
    copy.write_bytes(database.read_bytes())
    outcome = tunebook(
        *("tune", rnet, "--target", "host", "--shape", SHAPE, "--more", 5),
        *("--db", copy, "--json"),
    )
    assert outcome.code == ExitCode.OK, outcome.err
    assert outcome.document["trials"] == 5
    assert outcome.document["trials_total"] == TRIALS + 5


def test_a_run_ends_when_its_time_is_over(tunebook: Any, rnet: Path, tmp_path: Path) -> None:
    outcome = tunebook(
        *("tune", rnet, "--target", "host", "--shape", SHAPE, "--trials", 100_000),
        *("--time", "3s", "--db", tmp_path / "timed.db", "--json"),
    )
    assert outcome.code == ExitCode.OK, outcome.err
    assert outcome.document["ended"] == "time"
    assert outcome.document["trials"] < 100_000


def test_two_targets_in_one_database_never_meet(
    tuned: Any, tunebook: Any, rnet: Path, tmp_path: Path, database: Path
) -> None:
    copy = tmp_path / "both.db"
    copy.write_bytes(database.read_bytes())
    other = str(resolve_target("host")).replace(" -num-cores=", " -opt-level=2 -num-cores=")
    outcome = tunebook(
        *("tune", rnet, "--target", other, "--shape", SHAPE, "--trials", 12),
        *("--db", copy, "--json"),
    )
    assert outcome.code == ExitCode.OK, outcome.err
    with Store.open(str(copy), read_only=True) as store:
        for key in _keys(tuned):
            theirs = store.lookup([key]).hits[key]
            there = type(key)(key.op, key.buffers, other, key.compiler, key.workload_hash)
            ours = store.lookup([there]).hits[there]
            assert theirs.record_id in [record.id for record in store.records(key)]
            assert ours.record_id in [record.id for record in store.records(there)]
            assert ours.record_id != theirs.record_id


def _keys(document: Any) -> list[Any]:
    from tunebook.cache.keys import ScheduleKey

    return [ScheduleKey.parse(task["key"]) for task in document["tasks"]]
