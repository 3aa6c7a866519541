"""Models of strangers: each is opened in a real process with limits, and its end is an answer."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tunebook.cache.errors import ModelError, TunebookError
from tunebook.cache.records import Model
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.llvm_targets import host_target
from tunebook.tuner.splitting.prepare import prepare
from tunebook.tuner.splitting.split import split_model
from tunebook.workers.fleet import untrusted_models
from tunebook.workers.fleet.untrusted_models import (
    NotWantedError,
    SplitLimits,
    SplitRequest,
    UnsplittableModelError,
    split_untrusted,
)

pytestmark = pytest.mark.slow

NAME = "night/model"
ENOUGH = 2**30

Split = Callable[..., Model]


@pytest.fixture
def split(tmp_path: Path) -> Split:
    """Splits a model file in a process of its own."""

    def split_file(
        path: Path,
        limits: SplitLimits | None = None,
        wanted: Callable[[], bool] = lambda: True,
        **change: Any,
    ) -> Model:
        chosen = limits or SplitLimits(memory=ENOUGH, seconds=300.0)
        request = {"shapes": "", "target": str(host_target()), "choices": "", **change}
        return split_untrusted(
            SplitRequest(path, NAME, memory=chosen.memory, **request), chosen, wanted
        )

    return split_file


def test_a_model_is_split_as_the_command_line_splits_it(
    split: Split, onnx_models: ModuleType, tmp_path: Path
) -> None:
    path = onnx_models.save(tmp_path / "0a1b.onnx", onnx_models.scaled_convolution())
    assert split(path) == split_model(prepare(read_model(path), host_target()))


def test_a_model_that_takes_too_much_memory_is_ended(
    split: Split, onnx_models: ModuleType, tmp_path: Path
) -> None:
    path = onnx_models.save(tmp_path / "0a1b.onnx", onnx_models.constant_of(2**31))
    with pytest.raises(UnsplittableModelError) as refused:
        split(path)
    assert str(refused.value) == (
        f"{NAME}: importing it takes more than the 1 GiB of memory that it may have"
    )


def test_a_model_that_takes_too_long_is_ended(split: Split, tmp_path: Path) -> None:
    """A pipe that nobody writes to stands for it: any other model may be read before we look."""
    path = tmp_path / "0a1b.onnx"
    os.mkfifo(path)
    with pytest.raises(UnsplittableModelError) as refused:
        split(path, SplitLimits(memory=ENOUGH, seconds=0.01))
    assert str(refused.value) == f"{NAME}: importing it took longer than 0.01 s and was stopped"


def _zip_file(models: ModuleType, path: Path) -> Path:
    path.write_bytes(b"PK\x03\x04 and a pickle")
    return path


def _with_external_data(models: ModuleType, path: Path) -> Path:
    written: Path = models.save_with_external_data(path, "weights.bin")
    return written


def _unsupported(models: ModuleType, path: Path) -> Path:
    written: Path = models.save(path, models.with_unsupported_operators())
    return written


def _truncated(models: ModuleType, path: Path) -> Path:
    models.save(path, models.convolution())
    path.write_bytes(path.read_bytes()[:100])
    return path


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(_zip_file, "a .pt2 file runs code when it is read", id="pickles"),
        pytest.param(_with_external_data, "lies in a file of its own", id="external data"),
        pytest.param(_unsupported, "operators", id="unknown operators"),
        pytest.param(_truncated, "truncated", id="half a file"),
    ],
)
def test_a_model_that_cannot_be_imported_is_refused_by_its_own_name(
    make: Callable[[ModuleType, Path], Path],
    reason: str,
    split: Split,
    onnx_models: ModuleType,
    tmp_path: Path,
) -> None:
    path = make(onnx_models, tmp_path / "0a1b.onnx")
    with pytest.raises(UnsplittableModelError, match=reason) as refused:
        split(path)
    assert NAME in str(refused.value)
    assert str(tmp_path) not in f"{refused.value} {refused.value.log}"
    assert "Traceback" in refused.value.log


def test_a_model_that_nobody_wants_any_more_is_left(
    split: Split, onnx_models: ModuleType, tmp_path: Path
) -> None:
    path = onnx_models.save(tmp_path / "0a1b.onnx", onnx_models.convolution())
    with pytest.raises(NotWantedError):
        split(path, wanted=lambda: False)


def test_a_process_that_does_not_start_is_not_the_fault_of_the_model(
    split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault is faked: a module that ends at once stands for a machine without memory."""
    monkeypatch.setattr(untrusted_models, "_MODULE", "tunebook.workers")
    with pytest.raises(TunebookError) as failed:
        split(tmp_path / "0a1b.onnx")
    assert not isinstance(failed.value, ModelError)
