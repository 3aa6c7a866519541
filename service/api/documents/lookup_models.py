"""Look-ups as documents: what is asked, and what is answered."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    model_validator,
)

from tunebook.cache.boards.board_reports import ClassDefaults
from tunebook.cache.errors import TargetError
from tunebook.cache.keys import ScheduleKey, WorkloadKey
from tunebook.cache.likeness import UNKNOWN, Likeness, LookupHints
from tunebook.cache.remote.lookup_documents import LookupDocument
from tunebook.cache.targets import canonical_target
from tunebook.service.api.problems.problems import Problem, ProblemDocument
from tunebook.service.given_documents import GivenDocument, at_most
from tunebook.service.given_fields import (
    EXAMPLE_DIGEST,
    EXAMPLE_TARGET,
    LONGEST_TARGET,
    BoardClass,
    Digest,
    TargetText,
)
from tunebook.service.input_shapes import Shapes
from tunebook.service.known_classes import KnownClass

# A part of a key: one line, without what separates the parts.
_PART = r"^[^\x00-\x1f\x7f|]*$"
_HASH = r"^[0-9a-f]*$"
# Of buffers and attributes TVM's longest are some hundred characters, of constants some thousand.
_LONGEST_TEXT = 20_000
MOST_WORKLOADS = 2_000
# TVM knows some 30 attributes of a target.
_TARGET_MEMBERS = 100


def _plain_json(text: str) -> str:
    """Text of JSON that can be stored and sent on, once a miss tells what is in it."""
    if text:
        try:
            told = json.dumps(json.loads(text), ensure_ascii=False, allow_nan=False)
            # Raises UnicodeEncodeError, a ValueError, for half of a surrogate pair.
            told.encode()
        except (ValueError, RecursionError):
            raise ValueError("it is no JSON text, or holds what JSON does not know") from None
        if "\\u0000" in told:
            raise ValueError("it holds the character NUL")
    return text


_JsonText = Annotated[str, StringConstraints(max_length=_LONGEST_TEXT), AfterValidator(_plain_json)]
_Hash = Annotated[str, StringConstraints(max_length=32, pattern=_HASH)]
Compiler = Annotated[
    str,
    StringConstraints(min_length=1, max_length=128, pattern=_PART),
    Field(description="For example `tvm-0.27.0+llvm-22`."),
]
Op = Annotated[
    str,
    StringConstraints(min_length=1, max_length=2_000, pattern=_PART),
    Field(description="Fused operators in order, such as `conv2d+add+relu`."),
]
Buffers = Annotated[
    str,
    StringConstraints(min_length=1, max_length=_LONGEST_TEXT, pattern=_PART),
    Field(description="Dtypes and shapes: `f32[1,64,56,56] f32[64] -> f32[1,64,56,56]`."),
]
WorkloadHash = Annotated[
    str,
    StringConstraints(min_length=1, max_length=32, pattern=_PART),
    Field(description="The structural hash of the program, 16 hexadecimal digits."),
]
Pipeline = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9._/:@+-]{0,64}$"),
    Field(description="The name that the look-up is counted under; one of a bounded number."),
]

_EXAMPLES: list[JsonValue] = [
    {
        "target": EXAMPLE_TARGET,
        "compiler": "tvm-0.27.0+llvm-22",
        "workloads": [
            {
                "op": "conv2d+add+relu",
                "buffers": "f32[1,64,56,56] f32[64,64,3,3] f32[1,64,1,1] -> f32[1,64,54,54]",
                "hash": "8ff98e478c702f8d",
            }
        ],
        "pipeline": "camera-firmware",
    },
    {
        "target": EXAMPLE_TARGET,
        "model": EXAMPLE_DIGEST,
        "on_miss": "report",
    },
]


class LikenessDocument(GivenDocument):
    """What a program is like beyond its key; it explains a miss of what was never stored."""

    structure: _Hash = ""
    anchor: _Hash = ""
    attributes: _JsonText = ""
    constants: _JsonText = ""


class WorkloadQuestion(GivenDocument):
    """A workload, as splitting a model gives it."""

    op: Op
    buffers: Buffers
    hash: WorkloadHash
    likeness: LikenessDocument | None = None


def _check_number(given: Any) -> Any:
    if isinstance(given, list) and len(given) > MOST_WORKLOADS:
        raise Problem(
            "too-large",
            f"{len(given)} workloads are more than the {MOST_WORKLOADS} that one look-up may ask "
            "for; ask in several",
            members={"limit": MOST_WORKLOADS},
        )
    return given


_Workloads = Annotated[
    list[WorkloadQuestion], Field(min_length=1, fail_fast=True), BeforeValidator(_check_number)
]


class LookupRequest(GivenDocument):
    """A target and workloads with the compiler that split them, or a model by the digest of its
    file, whose keys are known since it was split."""

    model_config = ConfigDict(json_schema_extra={"examples": _EXAMPLES})

    target: TargetText | Annotated[dict[str, Any], at_most(_TARGET_MEMBERS)] | None = Field(
        None, description="A target in any spelling but `host`: a text, a tag, or TVM's JSON."
    )
    board_class: BoardClass | None = Field(
        None,
        description="The class of boards that supplies cores, triple and processor where the "
        "target leaves them out, or all of it.",
    )
    compiler: Compiler | None = Field(
        None, description="Left out for a model that one compiler alone split for the target."
    )
    workloads: _Workloads | None = None
    model: Digest | None = None
    shapes: Shapes | None = Field(
        None, description="Of a model's inputs; needed where it was split with several."
    )
    features: Annotated[str, StringConstraints(max_length=16, pattern=_HASH)] = Field(
        "", description="A hash of what LLVM switches on for the target, where it is known."
    )
    accept_emulated: bool = Field(
        False, description="Also serve schedules that only an emulated board has timed."
    )
    on_miss: Literal["error", "report"] = Field(
        "error", description="Whether a miss is a problem (409), or told with status 200."
    )
    known: Digest | None = Field(
        None,
        description="The `digest` of the last answer, which is not sent again while it holds.",
    )
    pipeline: Pipeline = ""
    counted: bool = Field(
        True,
        description="False for keys that were looked up before, and are only to be explained.",
    )

    @model_validator(mode="after")
    def _asks_one_thing(self) -> LookupRequest:
        if self.target is None and self.board_class is None:
            raise ValueError("give a target, or a board_class that supplies it")
        if (self.workloads is None) == (self.model is None):
            raise ValueError("give workloads or a model, one of the two")
        if self.workloads is not None and self.compiler is None:
            raise ValueError("workloads need the compiler that split them")
        if self.workloads is not None and self.shapes is not None:
            raise ValueError("shapes are those of a model; workloads have theirs in their buffers")
        return self

    def canonical_target(self, defaults: ClassDefaults | None) -> str:
        """The target's canonical text, completed by the defaults of the class that is named. Raises
        TargetError."""
        if self.board_class is not None:
            target = KnownClass(self.board_class, defaults).complete(self.target)
        else:
            assert self.target is not None
            target = str(canonical_target(self.target))
        if len(target) > LONGEST_TARGET:
            raise TargetError(
                f"the target has {len(target)} characters, and may have {LONGEST_TARGET}; leave "
                "out what does not tell it from others"
            )
        if not target.isprintable():
            raise TargetError("the target holds a character that cannot be printed")
        return target

    def keys(self, target: str) -> list[ScheduleKey]:
        """The keys of the workloads on a canonical target."""
        return [self._key(one).on(target) for one in self.workloads or ()]

    def hints(self, target: str) -> LookupHints:
        """What the caller knows of workloads that were perhaps never stored."""
        likeness = {
            self._key(one): Likeness(**one.likeness.model_dump()) if one.likeness else UNKNOWN
            for one in self.workloads or ()
        }
        return LookupHints(likeness, {target: self.features} if self.features else {})

    def _key(self, one: WorkloadQuestion) -> WorkloadKey:
        return WorkloadKey(one.op, one.buffers, self.compiler or "", one.hash)


class UnchangedDocument(BaseModel):
    """The answer is the one that the caller has."""

    unchanged: Literal[True] = True
    digest: str


class ScheduleMissDocument(ProblemDocument, LookupDocument):
    """The problem `schedule-miss`: which schedules are missing and why, and those that are not."""
