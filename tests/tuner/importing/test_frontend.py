"""Reading model files: what comes in, and that bad input is one clear line."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
import pytest

from tunebook.cache.errors import ExitCode, ModelError, TunebookError, UsageError
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.importing.imported_model import ImportedModel, TensorSpec

BadFile = Callable[[Path, Any], Path]


def test_a_model_is_read_with_its_inputs_and_outputs(read: Callable[..., ImportedModel]) -> None:
    model = read("half_precision", {"x": (2, 3, 8, 8)})
    assert model.inputs == (TensorSpec("x", "float16", (2, 3, 8, 8)),)
    assert model.outputs == (TensorSpec("y", "float16", (2, 10)),)
    assert model.shapes == "x=2,3,8,8"


def test_the_digest_is_that_of_the_file(tmp_path: Path, onnx_models: ModuleType) -> None:
    path = onnx_models.save(tmp_path / "model.onnx", onnx_models.convolution())
    assert read_model(path).digest == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_digest_covers_external_data(tmp_path: Path, onnx_models: ModuleType) -> None:
    path = onnx_models.save_with_external_data(tmp_path / "model.onnx", "weights.bin")
    data = tmp_path / "weights.bin"
    before = read_model(path).digest
    assert before == hashlib.sha256(path.read_bytes() + data.read_bytes()).hexdigest()
    data.write_bytes(bytes(data.stat().st_size))
    assert read_model(path).digest != before


def test_external_data_gives_the_same_program_as_weights_in_the_file(
    tmp_path: Path, onnx_models: ModuleType
) -> None:
    inside = onnx_models.save(tmp_path / "inside.onnx", onnx_models.convolution())
    outside = onnx_models.save_with_external_data(tmp_path / "outside.onnx", "weights.bin")
    modules = [read_model(path).module for path in (inside, outside)]
    assert modules[0].script() == modules[1].script()


def test_a_model_behind_a_link_is_read_with_the_data_beside_the_link(
    tmp_path: Path, onnx_models: ModuleType
) -> None:
    real = onnx_models.save_with_external_data(tmp_path / "model.onnx", "weights.bin")
    folder = tmp_path / "links"
    folder.mkdir()
    (folder / "model.onnx").symlink_to(real)
    (folder / "weights.bin").write_bytes((tmp_path / "weights.bin").read_bytes())
    assert read_model(folder / "model.onnx").digest == read_model(real).digest


def test_functions_of_a_model_are_looked_into(read: Callable[..., ImportedModel]) -> None:
    inside, plain = read("convolution_in_a_function"), read("convolution")
    assert inside.module.script() == plain.module.script()


@pytest.mark.parametrize("name", ["rnet", "magika", "ppocr_cls", "ppocr_det", "ppocr_rec"])
def test_published_models_import_once_their_dimensions_are_fixed(
    name: str, published: dict[str, Any]
) -> None:
    model = read_model(published[name].path, published[name].shapes)
    assert {one.name: one.shape for one in model.inputs} == published[name].shapes
    assert all(size > 0 for one in model.outputs for size in one.shape)


@pytest.mark.parametrize("name", ["rnet", "onet", "pnet", "magika", "ppocr_cls"])
def test_open_dimensions_are_named_with_the_option_to_give(
    name: str, published: dict[str, Any]
) -> None:
    (input_name,) = published[name].shapes
    with pytest.raises(ModelError, match=f"leaves dimensions open.*--shape {input_name}=N,"):
        read_model(published[name].path)


@pytest.mark.parametrize(
    ("package", "file", "operators"),
    [
        (
            "onnxruntime",
            "datasets/logreg_iris.onnx",
            "LinearClassifier, Normalizer, ZipMap",
        ),
        ("silero_vad", "data/silero_vad.onnx", "LSTM"),
    ],
)
def test_unsupported_operators_of_published_models_are_all_named(
    package: str, file: str, operators: str
) -> None:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        pytest.skip(f"the package {package} is not installed (tests/models.txt)")
    with pytest.raises(ModelError, match=f"cannot import: {operators};"):
        read_model(Path(spec.submodule_search_locations[0]) / file)


def test_unsupported_operators_in_branches_are_named_too(
    read: Callable[..., ImportedModel],
) -> None:
    with pytest.raises(ModelError, match="cannot import: Det, StringNormalizer;"):
        read("with_unsupported_operators")


def _text(path: Path, _: Any) -> Path:
    path.write_text("This is not a model.\n" * 10)
    return path


def _truncated(path: Path, models: Any) -> Path:
    whole = models.convolution().SerializeToString()
    path.write_bytes(whole[: len(whole) // 2])
    return path


def _truncated_between_fields(path: Path, _: Any) -> Path:
    # Protobuf reads this without complaint: only the version is there.
    path.write_bytes(onnx.ModelProto(ir_version=8).SerializeToString())
    return path


def _empty(path: Path, _: Any) -> Path:
    path.touch()
    return path


def _missing(path: Path, _: Any) -> Path:
    return path


def _directory(path: Path, _: Any) -> Path:
    path.mkdir()
    return path


def _external_missing(path: Path, models: Any) -> Path:
    return Path(models.save_with_external_data(path, "weights.bin", write=False))


def _external_truncated(path: Path, models: Any) -> Path:
    models.save_with_external_data(path, "weights.bin")
    path.with_name("weights.bin").write_bytes(b"short")
    return path


def _external_absolute(path: Path, models: Any) -> Path:
    outside = path.parents[1] / "outside.bin"
    outside.write_bytes(bytes(1152))
    return Path(models.save_with_external_data(path, str(outside), write=False))


def _external_above(path: Path, models: Any) -> Path:
    (path.parents[1] / "outside.bin").write_bytes(bytes(1152))
    return Path(models.save_with_external_data(path, "../outside.bin", write=False))


def _external_above_through_a_folder(path: Path, models: Any) -> Path:
    (path.parent / "inner").mkdir()
    (path.parents[1] / "outside.bin").write_bytes(bytes(1152))
    location = "inner/../../outside.bin"
    return Path(models.save_with_external_data(path, location, write=False))


def _external_windows(path: Path, models: Any) -> Path:
    return Path(models.save_with_external_data(path, "C:\\secret.bin", write=False))


def _external_link(path: Path, models: Any) -> Path:
    outside = path.parents[1] / "outside.bin"
    outside.write_bytes(bytes(1152))
    (path.parent / "weights.bin").symlink_to(outside)
    return Path(models.save_with_external_data(path, "weights.bin", write=False))


def _external_link_of_a_folder(path: Path, models: Any) -> Path:
    (path.parents[1] / "outside.bin").write_bytes(bytes(1152))
    (path.parent / "inner").symlink_to(path.parents[1])
    return Path(models.save_with_external_data(path, "inner/outside.bin", write=False))


def _contradicting_shapes(path: Path, models: Any) -> Path:
    model = models.quantised()
    model.graph.input[0].type.tensor_type.shape.dim[3].dim_value = 9
    return Path(models.save(path, model))


def _contradicting_channels(path: Path, models: Any) -> Path:
    model = models.convolution()
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 5
    return Path(models.save(path, model))


def _no_outputs(path: Path, models: Any) -> Path:
    model = models.convolution()
    model.graph.ClearField("output")
    return Path(models.save(path, model))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_text, "not an ONNX model"),
        (_truncated, "truncated"),
        (_truncated_between_fields, "truncated"),
        (_empty, "0 bytes"),
        (_missing, "does not exist"),
        (_directory, "is a directory"),
        (_external_missing, "'weights.bin' is missing"),
        (_external_truncated, "'weights.bin' is truncated"),
        (_external_absolute, "leads outside the model's folder"),
        (_external_above, "leads outside the model's folder"),
        (_external_above_through_a_folder, "leads outside the model's folder"),
        (_external_windows, "leads outside the model's folder"),
        (_external_link, "link that leads outside the model's folder"),
        (_external_link_of_a_folder, "link that leads outside the model's folder"),
        (_contradicting_channels, "TVM cannot import operator Conv"),
        (_contradicting_shapes, "onnxruntime refuses the model"),
        (_no_outputs, "without outputs"),
    ],
)
def test_a_bad_file_is_one_clear_line(
    make: BadFile,
    said: str,
    tmp_path: Path,
    onnx_models: ModuleType,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    path = make(folder / "model.onnx", onnx_models)
    with pytest.raises(ModelError) as refused:
        read_model(path)
    _require_one_line(refused.value, said, capfd)
    assert str(path) in str(refused.value)
    assert refused.value.exit_code is ExitCode.BAD_MODEL


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ({"x": (2, 3, 8)}, "3 dimensions"),
        ({"x": (2, 4, 8, 8)}, "fixes 3"),
        ({"x": (2, 3, 8, 0)}, "must be positive"),
        ({"image": (2, 3, 8, 8)}, "inputs are: x"),
        # A weight is no input.
        ({"w": (4, 3, 3, 3), "x": (2, 3, 8, 8)}, "inputs are: x"),
    ],
)
def test_a_shape_that_does_not_fit_is_one_clear_line(
    shapes: dict[str, tuple[int, ...]],
    said: str,
    read: Callable[..., ImportedModel],
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(UsageError) as refused:
        read("half_precision", shapes)
    _require_one_line(refused.value, said, capfd)


def test_what_only_the_importer_refuses_is_one_clear_line_with_the_operator(
    read: Callable[..., ImportedModel], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ModelError) as refused:
        read("with_padding_from_an_input")
    _require_one_line(refused.value, "TVM cannot import operator Pad", capfd)


@pytest.mark.parametrize("name", ["model.json", "model.pbtxt", "model.onnxtxt", "model"])
def test_an_onnx_file_is_read_whatever_it_is_called(
    name: str, tmp_path: Path, onnx_models: ModuleType
) -> None:
    path = tmp_path / name
    path.write_bytes(onnx_models.convolution().SerializeToString())
    assert [one.name for one in read_model(path).inputs] == ["x"]


def test_a_pt2_file_is_not_unpickled_unless_it_is_trusted(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(b"anything")
    with pytest.raises(ModelError, match="runs code"):
        read_model(path)


@pytest.mark.skipif(
    importlib.util.find_spec("torch") is not None, reason="torch is installed, so not missing"
)
def test_a_pt2_file_without_torch_says_what_to_install(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(b"anything")
    with pytest.raises(ModelError, match="pip install torch"):
        read_model(path, trust_pickles=True)


def _require_one_line(error: TunebookError, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert said in str(error)
    assert "\n" not in str(error)
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err == ""
