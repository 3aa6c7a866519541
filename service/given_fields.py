"""Types of fields that are the same wherever somebody gives them: over HTTP and in files."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from tunebook.cache.board_names import CLASS_PATTERN, check_own_class
from tunebook.cache.errors import UsageError
from tunebook.cache.work import UNLIMITED_TRIALS

# No database stores NUL, and what is one line is shown in lines.
ONE_LINE = r"^[^\x00-\x1f\x7f]*$"
LONGEST_TARGET = 2_000
# More than any board measures in its life; above it stands for no limit.
MOST_TRIALS = UNLIMITED_TRIALS - 1

EXAMPLE_DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
EXAMPLE_TARGET = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"

Digest = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9a-f]{64}$"),
    Field(description="The SHA-256 of a model file, in lower-case hexadecimal."),
]
Name = Annotated[str, StringConstraints(max_length=200, pattern=ONE_LINE)]


def _own_class(board_class: str) -> str:
    try:
        check_own_class(board_class)
    except UsageError as error:
        raise ValueError(str(error)) from None
    return board_class


BoardClass = Annotated[
    str,
    StringConstraints(pattern=CLASS_PATTERN),
    AfterValidator(_own_class),
    Field(
        description="The key under which boards are registered: `local` for the machine of the "
        "coordinator's own worker, `emulated-aarch64`, or the name of a class at the tracker."
    ),
]
TargetText = Annotated[
    str,
    StringConstraints(min_length=1, max_length=LONGEST_TARGET, pattern=ONE_LINE),
    Field(
        description="A target in any spelling but `host`: a text such as `llvm "
        "-mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4`, or a tag such as "
        "`raspberry-pi/4b-aarch64`."
    ),
]
