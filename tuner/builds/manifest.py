"""The manifest beside a built library: what it is, what built it, and from which records."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tunebook.cache.errors import ModelError


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ManifestTensor(_Document):
    """An input or output of the library's `main`, in its order."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class ManifestTask(_Document):
    """One task and the record that its code was built from; without a record it is untuned.

    `seconds` is what that record measured, `emulated` whether on an emulated board.
    """

    key: str
    weight: int
    record_id: int | None
    seconds: float | None
    emulated: bool


class Manifest(_Document):
    """Everything that is needed to say where a library came from, or to build it again."""

    library: str
    model: str
    model_digest: str
    shapes: str
    inputs: tuple[ManifestTensor, ...]
    outputs: tuple[ManifestTensor, ...]
    target: str
    compiler: str
    tvm: str
    tvm_ffi: str
    llvm: str
    threads: int
    choices: str
    tasks: tuple[ManifestTask, ...]

    def write(self, path: Path) -> None:
        path.write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Raises ModelError when the file is missing or no manifest."""
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, ValidationError) as error:
            raise ModelError(
                f"{path} is not a manifest of a build: {type(error).__name__}; build it again"
            ) from error
