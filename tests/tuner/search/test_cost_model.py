"""What the cost model learns from the features that are stored with the records."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Candidate, ErrorClass, Measurement, Record
from tunebook.tuner.search import cost_model
from tunebook.tuner.search.cost_model import CostModel, Sample, Seen, sample_of
from tunebook.tuner.trials.timing import INSTRUCTIONS

KEY = ScheduleKey("matmul", "f32[1] -> f32[1]", "target", "compiler", "0" * 16)
COLUMNS = 164


def _record(measurement: Measurement) -> Record:
    return Record(1, KEY, Candidate("[[], []]", "1" * 16), measurement, verified=True)


def _samples(group: str, count: int, scale: float, seed: int) -> list[Sample]:
    """Programs whose time is what their first feature says, times the group's scale."""
    random = np.random.default_rng(seed)
    rows = random.uniform(1, 10, size=(count, 1, COLUMNS)).astype("float32")
    return [Sample(group, one, float(one[0, 0]) * scale) for one in rows]


def _scores(model: CostModel, samples: list[Sample]) -> list[float]:
    inner = model.tvm_model._inst
    return list(inner._predict([sample.features for sample in samples]))


def test_features_come_back_as_they_were_stored() -> None:
    rows = np.arange(2 * COLUMNS, dtype="<f4").reshape(2, COLUMNS)
    sample = sample_of(
        _record(Measurement((2.0, 1.0, 3.0), features=rows.tobytes(), feature_columns=COLUMNS))
    )
    assert sample is not None
    np.testing.assert_array_equal(sample.features, rows)
    assert sample.seconds == 2.0


def test_a_record_without_features_teaches_nothing() -> None:
    assert sample_of(_record(Measurement(error=ErrorClass.BUILD, error_text="no"))) is None


def test_damaged_features_teach_nothing_and_are_named() -> None:
    assert sample_of(_record(Measurement((1.0,), features=b"\0\1", feature_columns=7))) is None


def test_times_of_different_units_are_never_compared() -> None:
    """Seconds of real boards, seconds of an emulated one, and instructions."""
    rows = np.zeros((1, COLUMNS), "<f4").tobytes()
    measured = [
        Measurement((1.0,), features=rows, feature_columns=COLUMNS),
        Measurement((1.0,), emulated=True, features=rows, feature_columns=COLUMNS),
        Measurement(
            (1.0,),
            emulated=True,
            board_state={"unit": INSTRUCTIONS},
            features=rows,
            feature_columns=COLUMNS,
        ),
    ]
    samples = [sample_of(_record(one)) for one in measured]
    assert len({sample.group for sample in samples if sample}) == 3


def test_few_samples_teach_nothing_yet() -> None:
    model = CostModel(threads=1, seed=1)
    model.learn(_samples("a", 5, 1.0, seed=1))
    assert not model.trained


def test_it_ranks_fast_programs_before_slow_ones() -> None:
    model = CostModel(threads=1, seed=1)
    model.learn(_samples("a", 200, 1e-3, seed=1))
    unseen = sorted(_samples("a", 40, 1e-3, seed=2), key=lambda one: one.seconds or 0.0)
    scores = _scores(model, unseen)
    assert model.trained
    assert np.mean(scores[:10]) > np.mean(scores[-10:])


def test_a_slow_workload_does_not_drag_down_a_fast_one() -> None:
    """Costs count by what they are of the best of their own group."""
    model = CostModel(threads=1, seed=1)
    model.learn([*_samples("fast", 100, 1e-6, seed=1), *_samples("slow", 100, 1.0, seed=2)])
    unseen = sorted(_samples("slow", 40, 1.0, seed=3), key=lambda one: one.seconds or 0.0)
    scores = _scores(model, unseen)
    assert np.mean(scores[:10]) > np.mean(scores[-10:])


class TestSearching:
    """With candidates that are their names, and features by name."""

    @pytest.fixture
    def model(self) -> CostModel:
        model = CostModel(threads=1, seed=1)
        model.learn(_samples("a", 200, 1e-3, seed=1))
        return model

    @pytest.fixture
    def extracted(self, model: CostModel, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The names of those whose features were taken."""
        names: list[str] = []
        of = dict(zip("abc", _samples("a", 3, 1.0, 2), strict=True))

        def extract(_: object, candidates: list[SimpleNamespace]) -> list[SimpleNamespace]:
            asked = [one.sch.mod for one in candidates]
            names.extend(asked)
            return [SimpleNamespace(numpy=lambda name=name: of[name].features) for name in asked]

        monkeypatch.setattr(cost_model, "module_hash", lambda module: module)
        extractor = SimpleNamespace(extract_from=extract)
        monkeypatch.setattr(model.tvm_model._inst, "extractor", extractor)
        return names

    def test_features_are_taken_once_and_not_of_what_is_known(
        self, model: CostModel, extracted: list[str]
    ) -> None:
        model.start_search({"c": 0.75}, {})
        a, known, again, b = _predict(model, "acab")
        assert _predict(model, "ba") == [b, a]
        assert (known, again) == (0.75, a)
        assert extracted == ["a", "b"]

    def test_nor_again_in_a_later_search(self, model: CostModel, extracted: list[str]) -> None:
        seen: dict[str, Seen] = {}
        model.start_search({}, seen)
        (before,) = _predict(model, "a")
        model.start_search({}, seen)
        after, _ = _predict(model, "ab")
        assert after == before
        assert extracted == ["a", "b"]
        assert {name: one.trace for name, one in seen.items()} == {"a": "trace a", "b": "trace b"}

    def test_of_what_was_seen_that_promises_most_which_is_expected_to_be_fast(
        self, model: CostModel
    ) -> None:
        samples = sorted(_samples("a", 40, 1.0, seed=3), key=lambda one: one.seconds or 0.0)
        seen = {str(rank): Seen(None, one.features) for rank, one in enumerate(samples)}
        best = model.most_promising(seen, 10)
        assert len(best) == 10
        assert np.mean([int(rank) for rank in best]) < 10

    def test_a_model_that_has_learnt_nothing_expects_nothing(self) -> None:
        model = CostModel(threads=1, seed=1)
        (sample,) = _samples("a", 1, 1.0, seed=3)
        assert model.most_promising({"a": Seen(None, sample.features)}, 1) == []


def _predict(model: CostModel, names: str) -> list[float]:
    candidates = [
        SimpleNamespace(sch=SimpleNamespace(mod=name, trace=f"trace {name}")) for name in names
    ]
    found: list[float] = model.tvm_model._inst.predict(None, candidates).tolist()
    return found


def test_a_group_of_failures_alone_does_not_train_it() -> None:
    model = CostModel(threads=1, seed=1)
    rows = np.zeros((1, COLUMNS), "float32")
    model.learn([Sample("a", rows, None) for _ in range(50)])
    assert not model.trained
