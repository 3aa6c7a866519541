"""The spellings in which a target is met, taken apart into named attributes.

A spelling is a command line (`llvm -mcpu=cortex-a72`), TVM's JSON or dict, or a tag, alone or with
options after it. What comes out is one text per attribute, nothing checked but its form.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from tunebook.cache.errors import TargetError
from tunebook.cache.nearest_names import did_you_mean
from tunebook.cache.target_tags import TAGS

# Other names of the same attribute.
_ALIASES = {"target": "mtriple"}
_LISTS = ("mattr", "cl-opt")


def attributes_of(spelling: str | Mapping[str, Any]) -> dict[str, str]:
    """The attributes that a spelling gives, `kind` among them, those of a tag filled in."""
    if isinstance(spelling, Mapping):
        return _from_mapping(spelling)
    text = spelling.strip()
    if not text:
        raise TargetError("the target is empty; give for example --target host")
    if text.startswith("{"):
        return _from_json(text)
    return _from_words(text)


def _from_json(text: str) -> dict[str, str]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise TargetError(f"the target starts like JSON but is none: {error}") from None
    except RecursionError:
        raise TargetError("the target is JSON nested too deep to be a target") from None
    return _from_mapping(value)


def _from_mapping(spelling: Mapping[str, Any]) -> dict[str, str]:
    if not spelling:
        raise TargetError("the target is empty; give for example --target host")
    given: dict[str, str] = {}
    for name, value in spelling.items():
        if not isinstance(name, str):
            raise TargetError(f"a target's attributes have names, not {name!r}")
        if name in ("host", "keys") or name.startswith("feature."):
            continue
        if value is None or value in ("", [], ()):
            continue
        _put(given, _ALIASES.get(name, name), _text(name, value))
    tag = given.get("tag")
    if tag and (tag in TAGS or "kind" not in given):
        return {**_tagged(tag), **given}
    return given


def _from_words(text: str) -> dict[str, str]:
    try:
        head, *options = shlex.split(text)
    except ValueError as error:
        raise TargetError(f"the target {text!r} cannot be split into options: {error}") from None
    if head.startswith("-"):
        raise TargetError(f"the target starts with the option {head}; put its kind first: llvm")
    given: dict[str, str] = {}
    while options:
        name, has_value, value = _option(options.pop(0), text).partition("=")
        if not has_value:
            value = options.pop(0) if options and not options[0].startswith("-") else "1"
        _put(given, _ALIASES.get(name, name), value)
    return {**_tagged(head), **given} if "/" in head else {"kind": head, **given}


def _option(word: str, text: str) -> str:
    name = word.removeprefix("-").removeprefix("-")
    if not word.startswith("-") or not name:
        raise TargetError(
            f"{word!r} in the target {text!r} is no option; options look like -mcpu=cortex-a72"
        )
    return name


def _tagged(name: str) -> dict[str, str]:
    if name not in TAGS:
        raise TargetError(f"the target tag {name!r} is unknown{did_you_mean(name, TAGS)}")
    return {"kind": "llvm", **TAGS[name]}


def _put(given: dict[str, str], name: str, value: str) -> None:
    if given.get(name, value) != value:
        raise TargetError(f"the target gives {name} twice: {given[name]!r} and {value!r}")
    given[name] = value


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)):
        return str(value)
    if name in _LISTS and isinstance(value, (list, tuple)):
        if all(isinstance(item, str) for item in value):
            return ",".join(value)
        raise TargetError(f"the target's {name} holds something that is no text: {value!r}")
    raise TargetError(f"the target's {name} cannot be {value!r}")
