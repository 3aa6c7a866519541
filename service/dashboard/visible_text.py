"""Text of unknown origin as a page may show it: every character is there to be seen."""

from __future__ import annotations

from typing import Any

_KEPT = "\n\t"


def visible(value: Any) -> Any:
    """A text with everything that is not printable written out (`\\u202e`): control characters,
    marks that turn the direction of what follows, and halves of characters, which UTF-8 cannot
    encode. Line ends and tabs stay; what is no text stays as it is."""
    # What is markup already was made by a template, from texts that were shown here.
    if type(value) is not str or value.isprintable():
        return value
    return "".join(map(_visible_character, value))


def one_line(text: str) -> str:
    """A command as one line, whose copy a shell reads as it was seen: line ends and tabs are
    written out too, since a pasted line end would run what stands before it."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def _visible_character(one: str) -> str:
    return one if one.isprintable() or one in _KEPT else ascii(one)[1:-1]
