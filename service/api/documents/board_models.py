"""What a board's agent sends, which is untrusted, and what it is answered."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, StringConstraints

from tunebook.cache.board_names import CLASS_PATTERN, LONGEST_NAME, is_board_name
from tunebook.cache.boards.board_reports import (
    COLDEST_C,
    HIGHEST_LOAD,
    HOTTEST_C,
    LARGEST_NUMBER,
    LONGEST_FAULT,
    LONGEST_TEXT,
    LONGEST_WORD,
    MOST_CORES,
    MOST_FEATURES,
    MOST_ITEMS,
    WORD,
    BoardReport,
    ClassDefaults,
)
from tunebook.service.given_documents import GivenDocument, at_most
from tunebook.service.given_fields import ONE_LINE


def _board_name(name: str) -> str:
    if not is_board_name(name):
        raise ValueError("a board is called by one printable line without a slash")
    return name


ClassPath = Annotated[
    str, Path(pattern=CLASS_PATTERN, description="The key under which the boards are registered.")
]
BoardPath = Annotated[
    str,
    Path(min_length=1, max_length=LONGEST_NAME, description="The board's own name."),
    AfterValidator(_board_name),
]
_Text = Annotated[str, StringConstraints(max_length=LONGEST_TEXT, pattern=ONE_LINE)]
_Fault = Annotated[str, StringConstraints(max_length=LONGEST_FAULT, pattern=ONE_LINE)]
_Word = Annotated[str, StringConstraints(max_length=LONGEST_WORD, pattern=WORD)]
_Cores = Annotated[int, Field(ge=1, le=MOST_CORES)]
_Number = Annotated[int, Field(ge=0, le=LARGEST_NUMBER)]
_Celsius = Annotated[float, Field(ge=COLDEST_C, le=HOTTEST_C, allow_inf_nan=False)]
_Load = Annotated[float, Field(ge=0, le=HIGHEST_LOAD, allow_inf_nan=False)]
_Items = Annotated[list[_Text], Field(max_length=MOST_ITEMS, fail_fast=True), at_most(MOST_ITEMS)]
_Features = Annotated[
    list[_Text], Field(max_length=MOST_FEATURES, fail_fast=True), at_most(MOST_FEATURES)
]

_EXAMPLE: dict[str, JsonValue] = {
    "cpu_model": "Cortex-A72",
    "mtriple": "aarch64-linux-gnu",
    "mcpu": "cortex-a72",
    "cores": 4,
    "features": ["crc", "fp-armv8", "neon"],
    "governor": "performance",
    "frequency_khz": 1_500_000,
    "temperature_c": 51.2,
    "throttled": [],
    "load": 0.08,
    "memory_bytes": 4_026_531_840,
    "memory_free_bytes": 3_221_225_472,
    "versions": {"tvm": "0.27.0", "linux": "6.1.21-v8+"},
    "tracker": "192.0.2.1:9190",
    "registered": True,
    "serving": False,
}


class ReportSubmission(GivenDocument):
    """A board's state as its agent sees it; what the board does not tell is left out."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    cpu_model: _Text = ""
    mtriple: _Word = Field("", description="The first one of a class becomes its default.")
    mcpu: _Word = Field("", description="By LLVM's name; with the first triple of a class.")
    cores: _Cores = 1
    features: _Features = Field(default_factory=list, description="By LLVM's names.")
    governor: _Text | None = None
    frequency_khz: _Number | None = None
    temperature_c: _Celsius | None = None
    throttled: _Items = Field(default_factory=list, description="What throttles it, by name.")
    load: _Load | None = None
    memory_bytes: _Number | None = None
    memory_free_bytes: _Number | None = None
    versions: Annotated[dict[_Text, _Text], Field(max_length=MOST_ITEMS), at_most(MOST_ITEMS)] = (
        Field(default_factory=dict)
    )
    tracker: _Text = ""
    registered: bool = Field(False, description="Whether the board server is at the tracker.")
    serving: bool = Field(False, description="Whether somebody measures on it.")
    restarts: _Number = Field(0, description="How often the board server was started anew.")
    fault: _Fault = Field("", description="Why it was the last time.")

    def report(self) -> BoardReport:
        """The same as it is stored."""
        given = self.model_dump()
        lists = {name: tuple(given[name]) for name in ("features", "throttled")}
        return BoardReport(**{**given, **lists})


class OrdersDocument(BaseModel):
    """What an agent is told back."""

    quarantine: str = Field(
        description="Why its board is in quarantine: then it stands at the tracker under the "
        "class's name with `.quarantined` behind it. Empty where it is not."
    )
    report_seconds: float = Field(description="When the next report is due.")


class DefaultsSubmission(GivenDocument):
    """What the targets of a class have unless they say otherwise."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"num_cores": 4, "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72"}]
        }
    )

    num_cores: _Cores
    mtriple: Annotated[_Word, StringConstraints(min_length=1)]
    mcpu: _Word = ""

    def defaults(self) -> ClassDefaults:
        """The same as it is stored."""
        return ClassDefaults(**self.model_dump())
