"""Models by the SHA-256 of their file: taken in as they arrive, given out to workers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from tunebook.cache.model_files import ModelFiles
from tunebook.service.api.documents.field_types import DigestPath
from tunebook.service.api.guards.dependencies import (
    Reader,
    Role,
    Submitter,
    Token,
    get_model_files,
    require,
)
from tunebook.service.api.problems.problems import Problem

router = APIRouter(tags=["models"])

_BINARY = "application/octet-stream"
_CONTENT = {"schema": {"type": "string", "format": "binary"}}
Files = Annotated[ModelFiles, Depends(get_model_files)]


class StoredModelDocument(BaseModel):
    """A model that is stored: its digest, and the bytes of its file."""

    sha256: str
    size: int


@router.put(
    "/models/{sha256}",
    summary="Upload a model",
    response_model=StoredModelDocument,
    responses={
        200: {"description": "The model was there already, and still is."},
        201: {"model": StoredModelDocument, "description": "The model is stored."},
    },
    openapi_extra={"requestBody": {"required": True, "content": {_BINARY: _CONTENT}}},
)
async def upload_model(
    sha256: DigestPath,
    request: Request,
    files: Files,
    token: Submitter,
) -> Response:
    """Takes in an ONNX model without external data. Nothing of it is read here but its digest."""
    was_there = await run_in_threadpool(files.exists, sha256)
    upload = files.upload(sha256)
    await run_in_threadpool(upload.__enter__)
    try:
        async for piece in request.stream():
            if piece:
                await run_in_threadpool(upload.write, piece)
        size = await run_in_threadpool(upload.finish)
    except ClientDisconnect:
        raise Problem("bad-request", "the upload ended before all of it had arrived") from None
    finally:
        await run_in_threadpool(upload.__exit__, None, None, None)
    document = StoredModelDocument(sha256=sha256, size=size)
    return JSONResponse(document.model_dump(), 200 if was_there else 201)


@router.get(
    "/models/{sha256}",
    summary="Download a model",
    response_class=Response,
    responses={200: {"description": "The model's file.", "content": {_BINARY: _CONTENT}}},
)
def download_model(
    sha256: DigestPath,
    files: Files,
    token: Annotated[Token, Depends(require(Role.WORKER))],
) -> Response:
    """Gives a model's file, for workers that have no other way to it."""
    headers = _headers(sha256, files.size(sha256))
    return StreamingResponse(files.read(sha256), headers=headers, media_type=_BINARY)


@router.head(
    "/models/{sha256}",
    summary="Ask whether a model is there",
    response_class=Response,
    responses={200: {"description": "It is there."}},
)
def find_model_file(
    sha256: DigestPath,
    files: Files,
    token: Reader,
) -> Response:
    """Says whether a model is there, and how large it is, so that nothing is sent twice."""
    return Response(headers=_headers(sha256, files.size(sha256)), media_type=_BINARY)


def _headers(sha256: str, size: int) -> dict[str, str]:
    return {
        "Content-Length": str(size),
        "ETag": f'"{sha256}"',
        "Cache-Control": "private, max-age=31536000, immutable",
    }
