"""Models as files, each under the SHA-256 of what it holds: in a folder, or in object storage."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import platformdirs

from tunebook.cache.errors import ModelError, NotFoundError, ServerError, UsageError

CHUNK_BYTES = 2**20
_DIGEST = re.compile(r"[0-9a-f]{64}")
# A serialised ONNX model begins with its IR version, field 1 as a varint, and goes on with another
# field of its own: the producer's name, version, domain, model version, text, graph, operator sets.
_ONNX_IR_VERSION = 0x08
_ONNX_NEXT_FIELDS = frozenset({0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42, 0x72, 0xA2, 0xCA})
_HEAD_BYTES = 4
_ARRIVING = "arriving"
_ABANDONED_SECONDS = 24 * 3600.0
_ZIP = b"PK"


def default_models_path() -> Path:
    """Where uploaded models lie unless told otherwise."""
    return platformdirs.user_data_path("tunebook", appauthor=False) / "models"


class WrongDigestError(ModelError):
    """What arrived is not what its address says."""

    problem_type = "wrong-digest"


class NoRoomError(ServerError):
    """The place of the models has no room left."""

    problem_type = "no-room"


class ModelFiles:
    """Model files by their SHA-256.

    - What is there under a digest has that digest, and is complete: a file is checked before it
      gets its name, and gets it in one step.
    - Nothing is ever parsed here. What does not begin as an ONNX model does is refused, `.pt2`
      above all: reading one runs what is in it.
    - Safe to share between threads and processes.
    """

    def __init__(self, url: str | None = None) -> None:
        """Models at a folder or a URL that fsspec knows (`s3://bucket/models`); None is this
        user's own folder. Raises UsageError for what it does not know."""
        # Only here: whoever only asks a coordinator needs no fsspec.
        from fsspec.core import url_to_fs
        from fsspec.implementations.local import LocalFileSystem

        place = str(default_models_path()) if url is None else url
        try:
            self._files, self._root = url_to_fs(place)
        except (ValueError, ImportError) as error:
            raise UsageError(f"models cannot be kept at {place}: {error}") from None
        self._is_folder = isinstance(self._files, LocalFileSystem)

    def check(self) -> None:
        """Makes the place where it is not there. Raises ServerError where it cannot be used."""
        try:
            self._files.makedirs(self._root, exist_ok=True)
            if self._is_folder and not os.access(self._root, os.W_OK):
                raise PermissionError(errno.EACCES, "not writable")
        except Exception as error:
            raise _unusable(self._root, error) from None

    def remove_abandoned(self, now: float) -> int:
        """Removes what arrived for processes that were killed meanwhile, a day after its last piece
        (`now`: seconds since 1970); gives how many files."""
        folder = Path(self._root) / _ARRIVING
        if not self._is_folder or not folder.is_dir():
            return 0
        removed = 0
        for file in folder.iterdir():
            # What is complete meanwhile, or removed by another coordinator, is gone.
            with suppress(FileNotFoundError):
                if file.stat().st_mtime < now - _ABANDONED_SECONDS:
                    file.unlink()
                    removed += 1
        return removed

    def exists(self, digest: str) -> bool:
        """Whether the model is there. Raises UsageError for what is no digest."""
        return bool(self._files.exists(self._path(digest)))

    def size(self, digest: str) -> int:
        """The bytes of a model. Raises NotFoundError."""
        try:
            return int(self._files.size(self._path(digest)))
        except FileNotFoundError:
            raise _missing(digest) from None

    def digests(self) -> Iterator[str]:
        """The digests of all models that are there."""
        for path in self._files.find(self._root):
            folder, _, name = str(path).rpartition("/")
            if _DIGEST.fullmatch(name) and folder.endswith(f"/{name[:2]}"):
                yield name

    def read(self, digest: str) -> Iterator[bytes]:
        """The model in pieces. Raises NotFoundError before the first."""
        try:
            file = self._files.open(self._path(digest), "rb")
        except FileNotFoundError:
            raise _missing(digest) from None
        return _pieces(file)

    def upload(self, digest: str) -> ModelUpload:
        """Takes a model in: write its pieces, then finish it; left otherwise, nothing stays."""
        return ModelUpload(self, digest, self._path(digest))

    def _path(self, digest: str) -> str:
        if _DIGEST.fullmatch(digest) is None:
            raise UsageError(
                f"{digest[:100]!r} is no digest of a model: that is the SHA-256 of its file, 64 "
                "hexadecimal digits in lower case"
            )
        return f"{self._root}/{digest[:2]}/{digest}"

    def _spool_folder(self) -> str | None:
        """Where a model lies until it is complete: beside where it will, if that is a folder."""
        if not self._is_folder:
            return None
        folder = Path(self._root) / _ARRIVING
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)

    def _take(self, spooled: Path, path: str) -> None:
        if not self._is_folder:
            # Object storage shows a file once it has all of it.
            self._files.put_file(str(spooled), path)
            return
        Path(path).parent.mkdir(exist_ok=True)
        spooled.replace(path)


class ModelUpload:
    """A model that is arriving, spooled to a file of its own and hashed on the way."""

    def __init__(self, files: ModelFiles, digest: str, path: str) -> None:
        self._store = files
        self._digest = digest
        self._path = path
        self._hash = hashlib.sha256()
        self._head = b""
        self._size = 0
        self._file: IO[bytes] | None = None
        self._spooled: Path | None = None

    def __enter__(self) -> ModelUpload:
        try:
            number, name = tempfile.mkstemp(dir=self._store._spool_folder())
        except OSError as error:
            raise _unusable(self._store._root, error) from None
        self._file, self._spooled = os.fdopen(number, "wb"), Path(name)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._file is not None
        assert self._spooled is not None
        self._file.close()
        self._spooled.unlink(missing_ok=True)

    def write(self, piece: bytes) -> None:
        """Takes a piece. Raises ModelError as soon as it is seen to be no ONNX model."""
        assert self._file is not None
        if len(self._head) < _HEAD_BYTES:
            self._head += piece[: _HEAD_BYTES - len(self._head)]
            _check_head(self._head)
        self._hash.update(piece)
        self._size += len(piece)
        try:
            self._file.write(piece)
        except OSError as error:
            raise _unusable(self._store._root, error) from None

    def finish(self) -> int:
        """Gives the model its name, once all of it has arrived and is what its digest says; gives
        its bytes. Raises ModelError, WrongDigestError and ServerError."""
        assert self._file is not None
        assert self._spooled is not None
        if len(self._head) < _HEAD_BYTES:
            raise ModelError("the upload is too short for a model; send the ONNX file as the body")
        if self._hash.hexdigest() != self._digest:
            raise WrongDigestError(
                f"the upload of {self._size} bytes has the SHA-256 {self._hash.hexdigest()}, and "
                f"its address says {self._digest}; send the file again, or under its own digest"
            )
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._store._take(self._spooled, self._path)
        except Exception as error:
            raise _unusable(self._store._root, error) from None
        return self._size


def _pieces(file: Any) -> Iterator[bytes]:
    with file:
        while piece := file.read(CHUNK_BYTES):
            yield piece


def _check_head(head: bytes) -> None:
    if head.startswith(_ZIP):
        raise ModelError(
            "a .pt2 or other zip file is refused here, since reading one runs what is in it; "
            "export the model as ONNX, or tune it by `tunebook tune` on a machine that trusts it"
        )
    starts_as_onnx = head[:1] == bytes([_ONNX_IR_VERSION])
    if not starts_as_onnx or (len(head) > 2 and head[2] not in _ONNX_NEXT_FIELDS):
        raise ModelError(
            "the upload does not begin as an ONNX model does; export the model as ONNX"
        )


def _missing(digest: str) -> NotFoundError:
    return NotFoundError(f"there is no model {digest}; upload it with PUT /api/v1/models/{digest}")


def _unusable(place: str, error: Exception) -> ServerError:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoRoomError(f"the models' place {place} has no room left; free some, then try again")
    said = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
    return ServerError(
        f"the models' place {place} cannot be used: {said}; check its permissions, or give another "
        "one with --models"
    )
