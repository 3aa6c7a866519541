"""Canonical targets: one text for every spelling that gives the same code.

Text work only. Whether LLVM knows an `mcpu` or `mattr` is checked where LLVM is, in the tuner.
docs/key.md says what is kept in the text, what is dropped, and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tunebook.cache.errors import TargetError
from tunebook.cache.misses import Difference
from tunebook.cache.nearest_names import did_you_mean
from tunebook.cache.target_spellings import attributes_of

KIND = "llvm"
# Change the code that is generated for a target, beside mtriple, mcpu and mattr.
_FLAGS = frozenset(
    {
        "fast-math",
        "fast-math-nnan",
        "fast-math-ninf",
        "fast-math-nsz",
        "fast-math-arcp",
        "fast-math-contract",
        "fast-math-reassoc",
    }
)
_NUMBERS = {"opt-level": range(4), "vector-width": range(1, 1 << 16)}
_TEXTS = frozenset({"mabi", "mfloat-abi"})
_LISTS = frozenset({"cl-opt"})
CODE_OPTIONS = frozenset({*_FLAGS, *_NUMBERS, *_TEXTS, *_LISTS})
_FEATURE_LISTS = frozenset({"mattr", *_LISTS})
_WHOLE_NUMBERS = frozenset({"num-cores", *_FLAGS, *_NUMBERS})
# Names, derived facts, and what takes effect elsewhere than in the code of a kernel.
DROPPED = frozenset(
    {
        "tag",
        "keys",
        "device",
        "host",
        "link-params",
        "libs",
        "jit",
        "from_device",
        "target_device_type",
    }
)
_KNOWN = sorted({"mtriple", "mcpu", "mattr", "model", "num-cores", *CODE_OPTIONS, *DROPPED})

# The architectures that code is made and linked for, by each of their exact names in triples and
# from `uname -m`; 32-bit Arm's names say which version of it.
ARCHITECTURES: Mapping[str, str] = MappingProxyType(
    {
        "x86_64": "x86_64",
        "amd64": "x86_64",
        "aarch64": "aarch64",
        "arm64": "aarch64",
        "arm": "arm",
        "armv7": "arm",
        "armv7a": "arm",
        "armv7l": "arm",
        "armv8l": "arm",
        "thumbv7": "arm",
        "thumbv7a": "arm",
    }
)
# Of these a name says nothing beyond the architecture.
_ONE_NAME = ("x86_64", "aarch64")
_NOTHING: Mapping[str, str] = MappingProxyType({})
# Vendors that say nothing; `none` is Arm's own toolchains' word.
_VENDORS = ("unknown", "pc", "none")


class MissingCoresError(TargetError):
    """A target without -num-cores, where nothing supplied them."""


@dataclass(frozen=True)
class Target:
    """A target whose `str` is its canonical text.

    `mattr` holds features with their sign (`+dotprod`), sorted by name; `options` the other
    options that change code, as (name, value) sorted by name.
    """

    kind: str
    mtriple: str
    mcpu: str | None
    mattr: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    model: str | None
    num_cores: int

    def __str__(self) -> str:
        return " ".join([self.kind, *(f"-{name}={value}" for name, value in self._attributes())])

    @property
    def architecture(self) -> str | None:
        """One of `ARCHITECTURES`' values; None for one that nothing here links for."""
        return ARCHITECTURES.get(self.mtriple.partition("-")[0])

    @classmethod
    def parse(cls, text: str) -> Target:
        """Reads a canonical text. Raises TargetError when it is no target."""
        return canonical_target(text)

    def differences(self, nearest: Target) -> tuple[Difference, ...]:
        """The attributes in which another target differs from this one, the wanted one: lists as
        lists, numbers as numbers, and None for an attribute that is not given."""
        mine = {"kind": self.kind, **dict(self._attributes())}
        other = {"kind": nearest.kind, **dict(nearest._attributes())}
        return tuple(
            Difference(
                f"target.{name}", _value(name, mine.get(name)), _value(name, other.get(name))
            )
            for name in dict.fromkeys([*mine, *other])
            if mine.get(name) != other.get(name)
        )

    def _attributes(self) -> Iterator[tuple[str, str]]:
        yield "mtriple", self.mtriple
        if self.mcpu is not None:
            yield "mcpu", self.mcpu
        if self.mattr:
            yield "mattr", ",".join(self.mattr)
        yield from self.options
        if self.model is not None:
            yield "model", self.model
        yield "num-cores", str(self.num_cores)


def _value(name: str, text: str | None) -> list[str] | int | str | None:
    """What an attribute's text stands for; a list that is not given is an empty one."""
    if name in _FEATURE_LISTS:
        return text.split(",") if text else []
    if text is not None and name in _WHOLE_NUMBERS:
        return int(text)
    return text


def canonical_target(
    spelling: str | Mapping[str, Any],
    *,
    num_cores: int | None = None,
    defaults: Mapping[str, str] = _NOTHING,
) -> Target:
    """Reads a command line, TVM's JSON or dict, or a tag.

    `num_cores` stands in where the spelling does not give it, before that `defaults`: what a board
    class supplies, by attribute. Raises TargetError for a target that is incomplete, contradicts
    itself, or holds an unknown option.
    """
    given = _completed(attributes_of(spelling), defaults)
    kind = given.pop("kind", "")
    if kind != KIND:
        raise TargetError(_unknown_kind(kind))
    for name in given:
        if name not in _KNOWN:
            raise TargetError(f"the target option {name!r} is unknown{did_you_mean(name, _KNOWN)}")
    for name, value in given.items():
        if name not in DROPPED:
            _check_text(name, value)
    if "mtriple" not in given:
        raise TargetError(
            "the target has no -mtriple; add for example -mtriple=aarch64-linux-gnu, "
            "or give --target host for this machine"
        )
    return Target(
        kind=kind,
        mtriple=_triple(given["mtriple"]),
        mcpu=given.get("mcpu"),
        mattr=_features(given.get("mattr", "")),
        options=tuple(_options(given)),
        model=given.get("model"),
        num_cores=_cores(given.get("num-cores"), num_cores),
    )


def _completed(given: dict[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """What is given, and the defaults of what is not; a processor only with its architecture."""
    completed = {**defaults, **given}
    architectures = {_architecture(one.get("mtriple", "")) for one in (completed, defaults)}
    if "mcpu" not in given and len(architectures) > 1:
        completed.pop("mcpu", None)
    return completed


def _architecture(mtriple: str) -> str:
    name = mtriple.lower().partition("-")[0]
    return ARCHITECTURES.get(name, name)


def _unknown_kind(kind: str) -> str:
    if not kind:
        return "the target has no kind; start it with llvm"
    if kind == "host":
        return (
            "the target host stands for this machine, and only an installation with TVM can tell "
            "what that is; give the text that `tunebook target host` prints"
        )
    return f"the target kind {kind!r} is not supported: Tunebook tunes for CPUs, of kind llvm"


def _check_text(name: str, value: str) -> None:
    if not value:
        raise TargetError(f"the target option -{name} is empty; give it a value or leave it out")
    if any(character.isspace() or character in "\"'|\\" for character in value):
        raise TargetError(f"the target option -{name} holds a space or quote: {value!r}")


def _triple(text: str) -> str:
    parts = text.lower().split("-")
    if len(parts) < 2 or not all(parts):
        raise TargetError(
            f"-mtriple={text} is no triple; it looks like aarch64-linux-gnu or x86_64-linux-gnu"
        )
    if ARCHITECTURES.get(parts[0]) in _ONE_NAME:
        parts[0] = ARCHITECTURES[parts[0]]
    # In three parts `none` is the system: aarch64-none-elf has no other.
    if len(parts) > 2 and parts[1] in (_VENDORS if len(parts) > 3 else _VENDORS[:2]):
        del parts[1]
    return "-".join(parts)


def _features(text: str) -> tuple[str, ...]:
    signs: dict[str, str] = {}
    for feature in filter(None, text.split(",")):
        sign, name = feature[0], feature[1:]
        if sign not in "+-" or not name:
            raise TargetError(f"the feature {feature!r} in -mattr needs a sign: +{feature}")
        if signs.setdefault(name, sign) != sign:
            raise TargetError(f"-mattr both adds and removes {name}: +{name} and -{name}")
    return tuple(signs[name] + name for name in sorted(signs))


def _options(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in sorted(CODE_OPTIONS & given.keys()):
        value = given[name]
        if name in _FLAGS:
            if _flag(name, value):
                yield name, "1"
        elif name in _NUMBERS:
            yield name, str(_number(name, value, _NUMBERS[name]))
        elif name in _LISTS:
            yield name, ",".join(sorted(set(filter(None, value.split(",")))))
        else:
            yield name, value


def _flag(name: str, value: str) -> bool:
    """A flag that is off is the same as one that is not given."""
    values = {"1": True, "true": True, "0": False, "false": False}
    if value.lower() not in values:
        raise TargetError(f"the target option -{name} is 0 or 1, not {value!r}")
    return values[value.lower()]


def _number(name: str, value: str, allowed: range) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 10 and int(value) in allowed):
        raise TargetError(
            f"the target option -{name} is a number from {allowed[0]} to {allowed[-1]}, "
            f"not {value!r}"
        )
    return int(value)


def _cores(given: str | None, supplied: int | None) -> int:
    if given is None and supplied is None:
        raise MissingCoresError(
            "the target has no -num-cores; add for example -num-cores=4 (a board class may "
            "supply it)"
        )
    return _number("num-cores", str(supplied) if given is None else given, range(1, 4097))
