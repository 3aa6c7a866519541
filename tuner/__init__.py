"""A model becomes tasks, tasks become measured records, records become a build."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tunebook.tuner.tvm_compat import check_versions

if TYPE_CHECKING:
    from tunebook.tuner.inside_tvm.tunebook_database import TunebookDatabase

__all__ = ["TunebookDatabase"]

# A build tool tells nobody outside what it does; onnxruntime asks before it is imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# Before any module of this package imports TVM: with a wrong pair TVM ends the process.
check_versions(required=False)


def __getattr__(name: str) -> Any:
    """What loads TVM is imported when it is first named: who only allocates needs none."""
    if name == "TunebookDatabase":
        from tunebook.tuner.inside_tvm.tunebook_database import TunebookDatabase

        return TunebookDatabase
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
