"""Models that strangers uploaded, split in a process of their own that may die of them.

An importer parses what it is given in C++, folds constants by running them, and takes whatever
memory and time that needs: none of it happens in a process that is needed afterwards.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tunebook.cache.errors import ModelError, TunebookError
from tunebook.cache.records import Model
from tunebook.tuner.child_process import ChildDiedError, ChildProcess, ChildTimeoutError

_MODULE = "tunebook.workers.fleet.splitting_process"
_LOOK_SECONDS = 0.5
GIBIBYTE = 2**30
# How allocators say that there is no memory: C++, NumPy, onnxruntime, protobuf, the C library.
_OUT_OF_MEMORY = (
    "bad_alloc",
    "unable to allocate",
    "failed to allocate",
    "cannot allocate memory",
    "out of memory",
    "memoryerror",
)


@dataclass(frozen=True)
class SplitLimits:
    """What splitting one model may take: bytes of memory beyond what the importers themselves
    need, and seconds."""

    memory: int = 8 * GIBIBYTE
    seconds: float = 300.0


@dataclass(frozen=True)
class SplitRequest:
    """A model file to split for a target. `name` is what errors call it; `shapes`, `target` and
    `choices` are canonical texts, `memory` bytes."""

    path: Path
    name: str
    shapes: str
    target: str
    choices: str
    memory: int


@dataclass(frozen=True)
class NotSplit:
    """Why a model was not split, in one line, and what there is to read about it."""

    reason: str
    log: str


class NotWantedError(TunebookError):
    """Nobody wants the outcome any more."""


class UnsplittableModelError(ModelError):
    """A model that cannot be split; `log` is what there is to read about it."""

    def __init__(self, reason: str, log: str) -> None:
        super().__init__(reason)
        self.log = log


def split_untrusted(
    request: SplitRequest, limits: SplitLimits, wanted: Callable[[], bool]
) -> Model:
    """The model as it is stored.

    Raises UnsplittableModelError, NotWantedError as soon as `wanted` says no, and TunebookError
    where no process starts here.
    """
    with tempfile.TemporaryDirectory(prefix="tunebook-split-") as folder:
        child = ChildProcess(_MODULE, Path(folder))
        try:
            # Before it has seen any model, what goes wrong is this machine's fault.
            child.wait_until_ready()
            answer = _ask(child, request, limits.seconds, wanted)
        finally:
            child.close()
    if isinstance(answer, NotSplit):
        raise _unsplittable(request, answer)
    return answer


def _ask(
    child: ChildProcess, request: SplitRequest, seconds: float, wanted: Callable[[], bool]
) -> Model | NotSplit:
    """What becomes of the model, also where the process does not survive it or is too slow."""
    try:
        child.send(request)
        return _answer(child, seconds, wanted)
    except ChildDiedError as died:
        return NotSplit(f"the importer did not survive it: {died}", child.output())
    except ChildTimeoutError:
        return NotSplit(
            f"importing it took longer than {seconds:g} s and was stopped", child.output()
        )


def _answer(child: ChildProcess, seconds: float, wanted: Callable[[], bool]) -> Model | NotSplit:
    deadline = time.monotonic() + seconds
    while True:
        if not wanted():
            raise NotWantedError("nobody wants this model any more")
        left = deadline - time.monotonic()
        try:
            answer: Model | NotSplit = child.receive(max(0.0, min(_LOOK_SECONDS, left)))
            return answer
        except ChildTimeoutError:
            if left <= 0:
                raise


def _unsplittable(request: SplitRequest, refused: NotSplit) -> UnsplittableModelError:
    """In words that name the model and not the file that it lay in for a while."""
    reason = refused.reason
    if any(text in f"{reason}\n{refused.log}".lower() for text in _OUT_OF_MEMORY):
        gibibytes = request.memory / GIBIBYTE
        reason = f"importing it takes more than the {gibibytes:.3g} GiB of memory that it may have"
    for place in (str(request.path), request.path.name):
        reason = reason.replace(place, request.name)
    if request.name not in reason:
        reason = f"{request.name}: {reason}"
    return UnsplittableModelError(reason, refused.log.replace(str(request.path), request.name))
