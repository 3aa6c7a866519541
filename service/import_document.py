"""An import as machines read it, from the command line and over HTTP alike."""

from __future__ import annotations

from pydantic import BaseModel


class SkippedDocument(BaseModel):
    """Lines that were left out for one reason; `lines` are the numbers of the first few, `detail`
    says what was wrong with the first."""

    file: str
    reason: str
    count: int
    lines: list[int]
    detail: str


class ImportDocument(BaseModel):
    """An import as machines read it; `records` counts those that can be used, stored before or
    not."""

    compiler: str
    targets: list[str]
    workloads: int
    records: int
    new_records: int
    failures: int
    replayed: int
    skipped: list[SkippedDocument]
