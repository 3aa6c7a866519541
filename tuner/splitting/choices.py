"""What may be chosen about the pipeline from a model to its fused functions; knows no TVM."""

from __future__ import annotations

from dataclasses import dataclass

from tunebook.cache.errors import UsageError

LAYOUTS = ("NCHW", "NHWC")
_LAYOUT_CHOICE = "layout="


@dataclass(frozen=True)
class Choices:
    """What may be chosen about the pipeline; it changes the workloads, so a build repeats it.

    `layout` is that of the images between 2-D convolutions: `NCHW` as models have it, or `NHWC`.
    """

    layout: str = LAYOUTS[0]

    def __post_init__(self) -> None:
        if self.layout not in LAYOUTS:
            raise UsageError(f"the layout is {' or '.join(LAYOUTS)}, not {self.layout!r}")

    def __str__(self) -> str:
        """The canonical text: empty for the defaults."""
        return "" if self == Choices() else f"{_LAYOUT_CHOICE}{self.layout}"

    @classmethod
    def parse(cls, text: str) -> Choices:
        """Reads the canonical text. Raises UsageError for one of another version of Tunebook."""
        if not text:
            return cls()
        if not text.startswith(_LAYOUT_CHOICE):
            raise UsageError(f"this Tunebook knows no choice {text!r}; tune the model again")
        return cls(text.removeprefix(_LAYOUT_CHOICE))
