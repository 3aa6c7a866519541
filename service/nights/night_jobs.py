"""The jobs of a night as they are submitted: a model's digest on a canonical target."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from tunebook.cache.errors import ModelError
from tunebook.cache.queue.submissions import is_emulated
from tunebook.service.given_targets import HOST, this_machine
from tunebook.service.input_shapes import shapes_text
from tunebook.service.known_classes import KnownClass
from tunebook.service.model_digest import file_digest
from tunebook.service.nights.documents import JobDocument
from tunebook.service.nights.night_file import NightFile, NightTarget, WantedJob

DEFAULT_LAYOUT = "NCHW"


def job_identity(
    name: str, digest: str, shapes: str, target: str, board_class: str, layout: str
) -> str:
    """What tells a job from the others of its night, 32 hex digits."""
    parts = (name, digest, shapes, target, board_class, layout)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def identity_of(document: JobDocument) -> str:
    """The identity of a job as the coordinator has it."""
    return job_identity(
        document.name,
        document.model,
        shapes_text(document.shapes),
        document.target,
        document.board_class,
        document.layout,
    )


@dataclass(frozen=True)
class NightJob:
    """A job of a night. `target` is canonical text; `problem` says why it cannot be submitted, and
    `digest` is then empty."""

    wanted: WantedJob
    target: str
    digest: str
    problem: str = ""

    @property
    def emulated(self) -> bool:
        """Whether its boards are emulated, so that their schedules count as hits."""
        return is_emulated(self.wanted.target.board_class)

    @property
    def identity(self) -> str:
        """What makes it this job in whichever night."""
        wanted = self.wanted
        return job_identity(
            wanted.model.name,
            self.digest,
            wanted.shapes_text,
            self.target,
            wanted.target.board_class,
            wanted.model.layout or DEFAULT_LAYOUT,
        )

    @property
    def label(self) -> str:
        """The job as people know it: `resnet (x=1,3,224,224) on pi5`."""
        model = self.wanted.model.name
        shapes = f" ({self.wanted.shapes_text})" if self.wanted.shapes else ""
        return f"{model}{shapes} on {self.wanted.target.name}"


def night_jobs(night: NightFile, classes: Callable[[str], KnownClass]) -> tuple[NightJob, ...]:
    """The jobs of a night, in the file's order; a model that cannot be read is a problem of its
    own jobs only. `classes` says what is known of a board class, which completes its targets.

    Raises TargetError, which is a fault of the file.
    """
    targets = {one.name: _target_text(one, classes) for one in night.targets}
    digests: dict[str, tuple[str, str]] = {}
    for model in night.models:
        try:
            digests[model.name] = (file_digest(model.path), "")
        except ModelError as error:
            digests[model.name] = ("", str(error))
    return tuple(
        NightJob(wanted, targets[wanted.target.name], *digests[wanted.model.name])
        for wanted in night.jobs()
    )


def _target_text(target: NightTarget, classes: Callable[[str], KnownClass]) -> str:
    if target.target == HOST:
        return this_machine()
    return classes(target.board_class).complete(target.target)
