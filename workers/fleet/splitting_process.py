"""Runs in a process that may die: reads a model that a stranger uploaded, and splits it."""

from __future__ import annotations

import os
import resource
import traceback
from pathlib import Path

from tunebook.cache.errors import ModelError, TunebookError
from tunebook.cache.records import Model
from tunebook.tuner.child_process import Answer, Handler, serve_parent
from tunebook.tuner.one_line import one_line
from tunebook.tuner.tvm_compat import check_versions
from tunebook.workers.fleet.untrusted_models import NotSplit, SplitRequest

# What is being measured elsewhere on this machine comes first.
_NICENESS = 10
_ZIP = b"PK\x03\x04"


def _start() -> Handler:
    os.nice(_NICENESS)
    check_versions()
    # Only now: a wrong version of TVM may crash on import.
    from tunebook.tuner.importing.frontend import read_model
    from tunebook.tuner.importing.shapes import parse_shape_options
    from tunebook.tuner.llvm_targets import resolve_target
    from tunebook.tuner.splitting.choices import Choices
    from tunebook.tuner.splitting.prepare import prepare
    from tunebook.tuner.splitting.split import split_model

    def split(request: SplitRequest) -> Model:
        target = resolve_target(request.target)
        _refuse_archives(request.path)
        shapes = parse_shape_options(request.shapes.split())
        model = read_model(request.path, shapes, external_data=False)
        return split_model(prepare(model, target, Choices.parse(request.choices)))

    def handle(request: SplitRequest, answer: Answer) -> None:
        limit_memory(request.memory)
        try:
            answer(split(request))
        except TunebookError as error:
            answer(NotSplit(str(error), traceback.format_exc()))
        except Exception as error:  # the importers raise whatever they like
            reason = f"it cannot be imported: {one_line(error)}"
            answer(NotSplit(reason, traceback.format_exc()))

    return handle


def limit_memory(more: int) -> None:
    """Lets this process have so many bytes beyond what it has; what it then asks for is refused."""
    # Address space is no measure: the compiler's libraries and each thread reserve much of it.
    limit = _private_bytes() + more
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _private_bytes() -> int:
    """What RLIMIT_DATA counts: the private writable memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0


def _refuse_archives(path: Path) -> None:
    with path.open("rb") as file:
        if file.read(len(_ZIP)) == _ZIP:
            raise ModelError(
                f"{path}: a .pt2 file runs code when it is read, so none is read from an upload; "
                "export the model as ONNX, or tune it on the command line"
            )


if __name__ == "__main__":
    serve_parent(_start)
