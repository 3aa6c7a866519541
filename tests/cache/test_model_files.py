"""Model files by their digest, in a folder and in object storage alike."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tunebook.cache.errors import ModelError, NotFoundError, ServerError, UsageError
from tunebook.cache.model_files import ModelFiles, NoRoomError, WrongDigestError

ONNX = b"\x08\x08\x12\x08tunebook" + bytes(range(256)) * 5000
DIGEST = hashlib.sha256(ONNX).hexdigest()


@pytest.fixture(params=["folder", "object storage"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ModelFiles]:
    """fsspec's own storage in memory stands for the remote ones: it is reached the same way."""
    if request.param == "folder":
        yield ModelFiles(str(tmp_path / "models"))
        return
    import fsspec

    made = ModelFiles("memory://models")
    yield made
    fsspec.filesystem("memory").store.clear()


def put(files: ModelFiles, content: bytes, digest: str = DIGEST) -> int:
    with files.upload(digest) as upload:
        upload.write(content[:3])
        upload.write(content[3:])
        return upload.finish()


def test_a_model_comes_back_as_it_was_put(files: ModelFiles) -> None:
    files.check()
    assert not files.exists(DIGEST)
    assert put(files, ONNX) == len(ONNX)
    assert put(files, ONNX) == len(ONNX)
    assert files.exists(DIGEST)
    assert files.size(DIGEST) == len(ONNX)
    assert b"".join(files.read(DIGEST)) == ONNX


def test_what_is_not_there_is_not_found(files: ModelFiles) -> None:
    with pytest.raises(NotFoundError, match=DIGEST):
        files.read(DIGEST)
    with pytest.raises(NotFoundError, match=DIGEST):
        files.size(DIGEST)


def test_what_has_another_digest_gets_no_name(files: ModelFiles) -> None:
    with pytest.raises(WrongDigestError, match="SHA-256"):
        put(files, ONNX[:-1])
    assert not files.exists(DIGEST)


def test_an_upload_that_is_left_midway_leaves_nothing(tmp_path: Path) -> None:
    files = ModelFiles(str(tmp_path))
    with pytest.raises(KeyboardInterrupt), files.upload(DIGEST) as upload:
        upload.write(ONNX[:100])
        raise KeyboardInterrupt
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_what_a_killed_process_left_is_removed_a_day_later(tmp_path: Path) -> None:
    files = ModelFiles(str(tmp_path))
    put(files, ONNX)
    upload = files.upload(DIGEST)
    upload.__enter__()
    upload.write(ONNX[:100])
    last = max(path.stat().st_mtime for path in (tmp_path / "arriving").iterdir())
    assert files.remove_abandoned(last + 3600) == 0
    assert files.remove_abandoned(last + 25 * 3600) == 1
    assert files.exists(DIGEST)
    upload.__exit__(None, None, None)


@pytest.mark.parametrize("digest", ["", "x", "A" * 64, "../" * 21 + "x", "0" * 63, "0" * 64 + "\n"])
def test_a_name_that_is_no_digest_reaches_no_file(files: ModelFiles, digest: str) -> None:
    for ask in (files.exists, files.size, files.read, files.upload):
        with pytest.raises(UsageError, match="digest"):
            ask(digest)


@pytest.mark.parametrize("first", [b"PK\x03\x04", b"PK", b"\x80\x04\x95", b"{", b"\x08\x08\xff"])
def test_what_does_not_begin_as_onnx_is_refused_at_its_first_bytes(
    files: ModelFiles, first: bytes
) -> None:
    with files.upload(DIGEST) as upload, pytest.raises(ModelError):
        upload.write(first)


def test_a_disk_without_room_says_so(tmp_path: Path) -> None:
    """The full disk is faked: none can be had without being root."""
    files = ModelFiles(str(tmp_path))

    class Full:
        def write(self, _: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self) -> None:
            pass

    with files.upload(DIGEST) as upload:
        inside: Any = vars(upload)
        inside["_file"].close()
        inside["_file"] = Full()
        with pytest.raises(NoRoomError, match="room"):
            upload.write(ONNX)


def test_a_place_that_cannot_be_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("in the way")
    with pytest.raises(ServerError, match="models"):
        ModelFiles(str(tmp_path / "models")).check()


def test_an_unknown_kind_of_storage_is_refused() -> None:
    with pytest.raises(UsageError, match="nosuch"):
        ModelFiles("nosuch://bucket")
