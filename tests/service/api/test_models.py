"""Models are taken in whole and unread, and given out as they are."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tunebook.cache.access.tokens import Role
from tunebook.service.api.settings import Limits

MakeClient = Callable[..., TestClient]
ProblemOf = Callable[[Any], str]
BINARY = {"Content-Type": "application/octet-stream"}
# Begins as every ONNX model does: IR version 8, producer "tunebook".
ONNX = b"\x08\x08\x12\x08tunebook" + bytes(range(256)) * 1000


def path_of(content: bytes) -> str:
    return f"/api/v1/models/{hashlib.sha256(content).hexdigest()}"


def in_pieces(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 10_000):
        yield body[start : start + 10_000]


def stored_files(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "in pieces"])
def test_a_model_comes_back_as_it_was_sent(make_client: MakeClient, declared: bool) -> None:
    client = make_client(Role.ADMIN)
    path = path_of(ONNX)
    assert client.head(path).status_code == 404
    sent = client.put(path, content=ONNX if declared else in_pieces(ONNX), headers=BINARY)
    assert sent.status_code == 201
    assert sent.json() == {"sha256": path.rpartition("/")[2], "size": len(ONNX)}
    got = client.get(path)
    assert got.content == ONNX
    assert got.headers["content-length"] == str(len(ONNX))
    assert got.headers["content-type"] == "application/octet-stream"
    head = client.head(path)
    assert head.status_code == 200
    assert head.headers["content-length"] == str(len(ONNX))


def test_sending_a_model_again_changes_nothing(make_client: MakeClient, tmp_path: Path) -> None:
    client = make_client(Role.ADMIN)
    assert client.put(path_of(ONNX), content=ONNX, headers=BINARY).status_code == 201
    assert client.put(path_of(ONNX), content=ONNX, headers=BINARY).status_code == 200
    assert len(stored_files(tmp_path / "models")) == 1


def test_a_real_model_is_accepted(
    make_client: MakeClient, onnx_models: ModuleType, tmp_path: Path
) -> None:
    path = onnx_models.save(tmp_path / "convolution.onnx", onnx_models.convolution())
    content = path.read_bytes()
    sent = make_client(Role.SUBMIT).put(path_of(content), content=content, headers=BINARY)
    assert sent.status_code == 201


def a_zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"cos\nsystem\n")
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "status", "kind"),
    [
        (a_zip(), 422, "bad-model"),
        (b"\x80\x04\x95pickle", 422, "bad-model"),
        (b"#!/bin/sh\necho\n", 422, "bad-model"),
        (b"\x08\x08\x99\x99", 422, "bad-model"),
        (b"\x08", 422, "bad-model"),
        (b"", 422, "bad-model"),
    ],
    ids=["pt2", "pickle", "script", "other protobuf", "one byte", "nothing"],
)
def test_what_is_no_onnx_model_is_refused_and_not_kept(
    make_client: MakeClient,
    problem_of: ProblemOf,
    tmp_path: Path,
    content: bytes,
    status: int,
    kind: str,
) -> None:
    response = make_client(Role.ADMIN).put(path_of(content), content=content, headers=BINARY)
    assert response.status_code == status
    assert problem_of(response) == kind
    assert stored_files(tmp_path / "models") == []


def test_a_model_under_another_digest_is_refused_and_not_kept(
    make_client: MakeClient, problem_of: ProblemOf, tmp_path: Path
) -> None:
    client = make_client(Role.ADMIN)
    response = client.put(path_of(ONNX), content=ONNX[:-1], headers=BINARY)
    assert response.status_code == 422
    assert problem_of(response) == "wrong-digest"
    assert client.head(path_of(ONNX)).status_code == 404
    assert stored_files(tmp_path / "models") == []


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "in pieces"])
def test_a_model_beyond_the_limit_is_too_large_and_not_kept(
    make_client: MakeClient, problem_of: ProblemOf, tmp_path: Path, declared: bool
) -> None:
    client = make_client(Role.ADMIN, limits=Limits(model_bytes=len(ONNX) - 1))
    response = client.put(
        path_of(ONNX), content=ONNX if declared else in_pieces(ONNX), headers=BINARY
    )
    assert response.status_code == 413
    assert problem_of(response) == "too-large"
    assert stored_files(tmp_path / "models") == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/json"},
        {"Content-Type": "text/plain"},
        {},
        {**BINARY, "Content-Encoding": "gzip"},
    ],
    ids=["json", "text", "no type", "packed"],
)
def test_a_model_is_sent_as_bytes_and_no_other_way(
    make_client: MakeClient, headers: dict[str, str]
) -> None:
    response = make_client(Role.ADMIN).put(path_of(ONNX), content=ONNX, headers=headers)
    assert response.status_code == 415
