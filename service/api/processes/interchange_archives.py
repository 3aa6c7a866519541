"""MetaSchedule's database files as one file that is sent: a tar archive of the two, not packed."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tunebook.cache.exchange.interchange import RECORDS, WORKLOADS
from tunebook.service.api.problems.problems import Problem

MEDIA_TYPE = "application/x-tar"
REPORT = "export.json"
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)
_PIECE = 256 * 1024
# What stands before a member and tells of it: long names, and further attributes.
_TELLING = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_MOST_TOLD = 64 * 1024


class _BoundedHeader(tarfile.TarInfo):
    """The header of a member. `tarfile` reads the text of one that tells of the next into memory,
    however much it says that this is."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _BoundedHeader:
        header = super().frombuf(buf, encoding, errors)
        if header.type in _TELLING and header.size > _MOST_TOLD:
            raise tarfile.ReadError(f"a header of {header.size} bytes")
        _check_size(header)
        return header


def unpack(archive: Path, folder: Path) -> None:
    """Writes the two files of an archive into a folder, whatever folder they are in there; nothing
    else is looked at. Raises a problem for what is no such archive."""
    found: set[str] = set()
    try:
        with tarfile.open(archive, "r:", tarinfo=_BoundedHeader) as opened:
            for member in opened:
                _check_size(member)
                name = PurePosixPath(member.name).name
                if name not in (WORKLOADS, RECORDS):
                    continue
                if member.type not in _PLAIN or member.issparse() or name in found:
                    raise _refused(f"its {name} is no plain file, or is there twice")
                source = opened.extractfile(member)
                assert source is not None
                with source, (folder / name).open("xb") as target:
                    shutil.copyfileobj(source, target, _PIECE)
                found.add(name)
    except RecursionError:
        # `tarfile` calls itself for each header that tells of the next.
        raise _refused("a header tells of a header without end") from None
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise _refused(str(error)) from None
    missing = sorted({WORKLOADS, RECORDS} - found)
    if missing:
        raise _refused(f"it holds no {' and no '.join(missing)}")


def _check_size(member: tarfile.TarInfo) -> None:
    """Raises ReadError for a negative size: `tarfile` would go back by it, and read without end."""
    if member.size < 0:
        raise tarfile.ReadError(f"a member of {member.size} bytes")


def pack(files: list[Path]) -> Iterator[bytes]:
    """An archive of these files in pieces, without holding any of them."""
    for path in files:
        header = tarfile.TarInfo(path.name)
        header.size = path.stat().st_size
        yield header.tobuf(tarfile.USTAR_FORMAT)
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece
        yield b"\0" * (-header.size % tarfile.BLOCKSIZE)
    yield b"\0" * (2 * tarfile.BLOCKSIZE)


def packed_size(files: list[Path]) -> int:
    """The bytes that `pack` gives."""
    sizes = (path.stat().st_size for path in files)
    blocks = sum(1 + -(-size // tarfile.BLOCKSIZE) for size in sizes)
    return (blocks + 2) * tarfile.BLOCKSIZE


def _refused(reason: str) -> Problem:
    return Problem(
        "interchange",
        f"the body is no archive of a MetaSchedule database: {reason}; send what "
        f"`tar -c {WORKLOADS} {RECORDS}` writes",
    )
