"""Which records are suspect, as a part of other questions."""

from __future__ import annotations

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import aliased

from tunebook.cache.storage.tables import RecordRow

_ROW = aliased(RecordRow)
# They are few and have an index of their own. The column itself stands behind the large ones, which
# SQLite would read for it.
SUSPECT_IDS = select(_ROW.id).where(_ROW.suspect)


def is_suspect() -> ColumnElement[bool]:
    """Of records whose times are in doubt."""
    return RecordRow.id.in_(SUSPECT_IDS)
