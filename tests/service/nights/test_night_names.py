"""Which night is on, and which targets its file means."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

import pytest

from tunebook.cache.errors import TargetError
from tunebook.service.given_targets import target_text
from tunebook.service.nights.documents import Standing
from tunebook.service.nights.night import night_name
from tunebook.service.nights.night_file import NightFile
from tunebook.service.nights.standings import Standings, StandingsFile


def night(budget: dict[str, object]) -> NightFile:
    tables = {"models": [{"path": "a.onnx"}], "targets": [{"target": "host"}]}
    return NightFile.model_validate({"name": "small", "budget": budget, **tables})


@pytest.mark.parametrize(
    "moments",
    [
        ("2026-11-30T13:00+01:00", "2026-11-30T22:00+01:00", "2026-12-01T11:59+01:00"),
        ("2026-11-30T12:00-08:00", "2026-11-30T23:59-08:00", "2026-12-01T11:00-08:00"),
    ],
)
def test_from_noon_to_noon_is_one_night(moments: tuple[str, ...]) -> None:
    names = {night_name(night({"trials": 1}), datetime.fromisoformat(one)) for one in moments}
    assert names == {"small of 2026-11-30"}


@pytest.mark.parametrize(
    ("now", "name"),
    [
        ("2026-11-30T22:00+00:00", "small until 2026-12-01T06:00Z"),
        ("2026-12-01T05:59+00:00", "small until 2026-12-01T06:00Z"),
        ("2026-12-01T06:00+00:00", "small until 2026-12-02T06:00Z"),
    ],
)
def test_with_a_deadline_a_night_lasts_until_then(now: str, name: str) -> None:
    wanted = night({"trials": 1, "deadline": "06:00+00:00"})
    assert night_name(wanted, datetime.fromisoformat(now)) == name


def test_only_an_installation_with_tvm_knows_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tunebook.tuner.llvm_targets", None)
    assert target_text("llvm -mtriple=arm64-linux-gnu -num-cores=4").startswith("llvm -mtriple=aa")
    with pytest.raises(TargetError, match="`tunebook target host` prints"):
        target_text("host")


BEFORE = Standings(
    night="tonight", jobs={"a": Standing(hits={"k": 1e-3}, misses=("m",)), "b": None}
)


def test_what_was_before_is_read_as_it_was_written(tmp_path: Path) -> None:
    kept = StandingsFile(tmp_path / "new", "http://here", "tonight")
    assert kept.read() is None
    kept.write(BEFORE)
    assert kept.read() == BEFORE
    assert [path.suffix for path in (tmp_path / "new").iterdir()] == [".json"]


@pytest.mark.parametrize(
    ("server", "name"), [("http://there", "tonight"), ("http://here", "tomorrow")]
)
def test_every_night_at_every_coordinator_has_its_own(
    tmp_path: Path, server: str, name: str
) -> None:
    StandingsFile(tmp_path, "http://here", "tonight").write(BEFORE)
    assert StandingsFile(tmp_path, server, name).read() is None


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff", b"[]", b'{"night": "another", "jobs": {}}'])
def test_what_is_damaged_is_as_if_it_were_not_there(tmp_path: Path, damage: bytes) -> None:
    kept = StandingsFile(tmp_path, "http://here", "tonight")
    kept.write(BEFORE)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage)
    assert kept.read() is None
