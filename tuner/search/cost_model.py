"""The cost model: XGBoost on the features that were stored with the records."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.cost_model import XGBModel
from tvm.s_tir.meta_schedule.cost_model.xgb_model import FeatureGroup, XGBConfig

from tunebook.cache.records import Record
from tunebook.tuner.hashing import module_hash

_log = logging.getLogger(__name__)

# Below this many samples the model knows less than chance.
_FEWEST_SAMPLES = 24
# Training again pays once the data grew by this share.
_GROWTH = 0.2
# What TVM's model calls the cost of a failure, in seconds.
_FAILED_SECONDS = 1e10


@dataclass(frozen=True)
class Sample:
    """One record as the model learns it.

    `group` is what its cost may be compared with: workload, target and cost unit. `features` has
    one row per buffer store of the scheduled module. `seconds` is None for a failure.
    """

    group: str
    features: NDArray[np.float32]
    seconds: float | None


def sample_of(record: Record) -> Sample | None:
    """The sample of a record, or None where it has no features that can be read."""
    measured = record.measurement
    if not measured.features or not measured.feature_columns:
        return None
    try:
        rows = np.frombuffer(measured.features, dtype="<f4").reshape(-1, measured.feature_columns)
    except ValueError:
        _log.warning("record %d teaches nothing: its features are damaged", record.id)
        return None
    # Emulated boards give instructions where they can count them, else wall time.
    unit = measured.board_state.get("unit", "emulated" if measured.emulated else "board")
    return Sample(f"{record.key} | {unit}", rows.astype("float32"), measured.seconds)


@dataclass(frozen=True)
class Seen:
    """A candidate that a search has looked at: TVM's form of its trace, and its features."""

    trace: Any
    features: NDArray[np.float32]


@derived_object
class _FeatureModel(XGBModel._cls):  # type: ignore[misc]
    """TVM's XGBoost model, fed with stored features, which knows what was measured."""

    def __init__(self, threads: int, seed: int) -> None:
        config = XGBConfig(nthread=threads, seed=seed)
        super().__init__(config=config, num_warmup_samples=0)
        self._scores: dict[str, float] = {}
        self._seen: dict[str, Seen] = {}
        self._random = np.random.default_rng(seed)

    def start_search(self, known: Mapping[str, float], seen: dict[str, Seen]) -> None:
        self._scores = dict(known)
        self._seen = seen

    def predict(self, context: Any, candidates: Sequence[Any]) -> NDArray[np.float64]:
        hashes = [module_hash(candidate.sch.mod) for candidate in candidates]
        new = {
            name: candidate
            for name, candidate in zip(hashes, candidates, strict=True)
            if name not in self._scores
        }
        if new:
            scores = self._expected(context, new)
            self._scores.update(zip(new, scores.tolist(), strict=True))
        return np.array([self._scores[one] for one in hashes], dtype="float64")

    def _expected(self, context: Any, candidates: dict[str, Any]) -> NDArray[np.floating[Any]]:
        if self.booster is None:
            return self._random.uniform(0.01, 1.0, size=len(candidates))
        self._look_at(context, {n: one for n, one in candidates.items() if n not in self._seen})
        return self.scores_of([self._seen[name].features for name in candidates])

    def _look_at(self, context: Any, candidates: dict[str, Any]) -> None:
        """Takes the features of what was not seen before: that takes half of a search's time."""
        if not candidates:
            return
        features = self.extractor.extract_from(context, list(candidates.values()))
        for (name, candidate), rows in zip(candidates.items(), features, strict=True):
            self._seen[name] = Seen(candidate.sch.trace, rows.numpy().astype("float32"))

    def scores_of(self, features: list[NDArray[np.float32]]) -> NDArray[np.floating[Any]]:
        found: NDArray[np.floating[Any]] = np.maximum(self._predict(features), 0.0) + 1e-6
        return found


class CostModel:
    """Learns from records, and ranks candidates for the evolutionary search."""

    def __init__(self, *, threads: int, seed: int) -> None:
        self.tvm_model = _FeatureModel(threads, seed)
        self._model = self.tvm_model._inst
        self._groups: dict[str, list[Sample]] = {}
        self._samples = 0
        self._trained_samples = 0

    @property
    def trained(self) -> bool:
        """Whether it ranks by what it learnt, not by chance."""
        return self._model.booster is not None

    def learn(self, samples: Iterable[Sample]) -> None:
        """Adds samples, and trains again once they make a difference."""
        for sample in samples:
            self._groups.setdefault(sample.group, []).append(sample)
            self._samples += 1
        grown = self._samples - self._trained_samples
        if self._samples < _FEWEST_SAMPLES or grown < max(1.0, _GROWTH * self._trained_samples):
            return
        self._train()
        self._trained_samples = self._samples

    def start_search(self, known: Mapping[str, float], seen: dict[str, Seen]) -> None:
        """Before each search: what is known by module hash is scored so, 1 being the fastest and 0
        a failure, and not by what the model expects of it. Of what is in `seen` no features are
        taken again; whatever the search looks at is put there."""
        self._model.start_search(known, seen)

    def most_promising(self, seen: Mapping[str, Seen], count: int) -> list[str]:
        """The names of those of which most is expected, best first."""
        if not self.trained or not seen:
            return []
        scores = self._model.scores_of([one.features for one in seen.values()])
        ranked = sorted(zip(scores.tolist(), seen, strict=True), reverse=True)
        return [name for _, name in ranked[:count]]

    def _train(self) -> None:
        features: list[NDArray[np.float32]] = []
        ratios: list[NDArray[np.float32]] = []
        for name, samples in self._groups.items():
            costs = [_FAILED_SECONDS if one.seconds is None else one.seconds for one in samples]
            group = FeatureGroup(name, [one.features for one in samples], np.array(costs, "f4"))
            if group.min_cost >= _FAILED_SECONDS:
                continue
            features.extend(group.features)
            ratios.append(group.min_cost / group.costs)
        if features:
            self._model._train(xs=features, ys=np.concatenate(ratios))
