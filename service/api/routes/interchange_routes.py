"""Records taken over from MetaSchedule's database files, and given out as such."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from tunebook.cache.exchange.interchange import RECORDS, WORKLOADS
from tunebook.cache.targets import canonical_target
from tunebook.service.api.guards.dependencies import (
    Reader,
    Role,
    Token,
    get_command_runner,
    require,
)
from tunebook.service.api.problems.problems import Problem
from tunebook.service.api.processes import interchange_archives
from tunebook.service.api.processes.command_runner import CommandRunner
from tunebook.service.api.processes.interchange_archives import MEDIA_TYPE, REPORT
from tunebook.service.given_fields import TargetText
from tunebook.service.import_document import ImportDocument

router = APIRouter(tags=["interchange"])

_ARCHIVE = {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}
Runner = Annotated[CommandRunner, Depends(get_command_runner)]


@router.post(
    "/import",
    summary="Import records",
    openapi_extra={"requestBody": {"required": True, "content": _ARCHIVE}},
)
async def import_records(
    request: Request,
    runner: Runner,
    token: Annotated[Token, Depends(require(Role.ADMIN))],
    target: Annotated[
        TargetText | None,
        Query(description="What names no target, or no number of cores, is taken to be for it."),
    ] = None,
) -> ImportDocument:
    """Takes over the records of a MetaSchedule run, sent as a tar archive of its two files. None is
    served before it was measured here."""
    chosen = [] if target is None else ["--target", str(canonical_target(target))]
    with tempfile.TemporaryDirectory(prefix="tunebook-import-") as name:
        folder = Path(name)
        files = folder / "files"
        with _having_room():
            await _receive(request, folder / "body.tar")
            files.mkdir()
            await run_in_threadpool(interchange_archives.unpack, folder / "body.tar", files)
        printed = await _run(runner, ["import", str(files), *chosen], files)
    return ImportDocument.model_validate_json(printed)


@router.get(
    "/export",
    summary="Export records",
    response_class=StreamingResponse,
    responses={200: {"description": "A tar archive.", "content": _ARCHIVE}},
)
async def export_records(
    runner: Runner,
    token: Reader,
    target: Annotated[
        TargetText | None, Query(description="What was tuned for this target only.")
    ] = None,
    accept_emulated: Annotated[
        bool, Query(description="What only an emulated board timed, too: TVM cannot tell.")
    ] = False,
) -> StreamingResponse:
    """Gives the records as a tar archive of the two files that TVM's MetaSchedule reads, with
    `export.json`, which says what was left out and why."""
    chosen = [] if target is None else ["--target", str(canonical_target(target))]
    if accept_emulated:
        chosen.append("--accept-emulated")
    holder = tempfile.TemporaryDirectory(prefix="tunebook-export-")
    try:
        folder = Path(holder.name)
        printed = await _run(runner, ["export", str(folder), *chosen], folder)
        (folder / REPORT).write_bytes(printed)
    except BaseException:
        holder.cleanup()
        raise
    files = [folder / name for name in (REPORT, WORKLOADS, RECORDS)]
    return StreamingResponse(
        _pieces(files, holder),
        media_type=MEDIA_TYPE,
        headers={
            "Content-Length": str(interchange_archives.packed_size(files)),
            "Content-Disposition": 'attachment; filename="tunebook-export.tar"',
        },
    )


@contextmanager
def _having_room() -> Iterator[None]:
    """Raises a problem where the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise Problem(
            "no-room",
            "the folder for temporary files has no room left for the archive; free some, or start "
            "the coordinator with another TMPDIR",
        ) from None


async def _receive(request: Request, place: Path) -> None:
    with place.open("wb") as file:
        try:
            async for piece in request.stream():
                await run_in_threadpool(file.write, piece)
        except ClientDisconnect:
            raise Problem("bad-request", "the upload ended before all had arrived") from None


async def _run(runner: CommandRunner, arguments: list[str], folder: Path) -> bytes:
    """What a command printed; its errors do not tell where the coordinator has its files."""
    try:
        return await runner.run(arguments)
    except Problem as problem:
        told = problem.detail.replace(str(folder), "the archive")
        raise Problem(problem.problem_type, told, headers=problem.headers) from None


def _pieces(files: list[Path], holder: tempfile.TemporaryDirectory[str]) -> Iterator[bytes]:
    with holder:
        yield from interchange_archives.pack(files)
