"""A model tuned with its images laid out otherwise: its build repeats that, unasked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tunebook.cache.errors import ExitCode
from tunebook.tuner.builds.compiled_model import CompiledModel
from tunebook.tuner.builds.manifest import Manifest

pytestmark = pytest.mark.slow


def test_tune_with_a_layout_then_build_hits_and_agrees_with_onnxruntime(
    tunebook: Callable[..., Any],
    onnx_models: ModuleType,
    onnxruntime_says: Callable[..., list[Any]],
    tmp_path: Path,
) -> None:
    model = onnx_models.save(tmp_path / "model.onnx", onnx_models.upscaled())
    where = (model, "--target", "host", "--db", tmp_path / "tunebook.db", "--json")
    tuned = tunebook("tune", *where, "--layout", "NHWC", "--trials", 8)
    assert tuned.code == ExitCode.OK, tuned.err
    keys = {task["key"] for task in tuned.document["tasks"]}
    assert any("[1,12,12,3]" in key for key in keys)

    built = tunebook("build", *where, "-o", tmp_path / "built")
    assert built.code == ExitCode.OK, built.out
    assert built.document["hits"] == len(keys)
    image = np.random.default_rng(3).standard_normal((1, 3, 12, 12)).astype("float32")
    library, manifest = Path(built.document["library"]), Path(built.document["manifest"])
    compiled = CompiledModel(library, manifest, Manifest.read(manifest), ())
    (ours,) = compiled.run({"x": image})
    (theirs,) = onnxruntime_says(model, {"x": image})
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)

    otherwise = tunebook("lookup", *where, "--layout", "NCHW")
    assert otherwise.code == ExitCode.MISS
    reasons = {miss["reason"] for miss in otherwise.document["misses"]}
    assert "other-pipeline" in reasons
