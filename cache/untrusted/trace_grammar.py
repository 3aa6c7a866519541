"""What each instruction of a trace may hold, position by position.

TVM trusts a trace: a null for a block, a tile factor of 0 or a buffer index that does not exist end
the process that replays it, a tile without a decision may loop for ever, and a split that says so
writes beyond its buffers. So an instruction passes only in the form in which TVM's search for CPUs
writes it. What such an instruction then does, for instance to a loop that is not there, TVM
refuses by itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

ANNOTATIONS = frozenset(
    {
        "schedule_rule",
        "pragma_auto_unroll_max_step",
        "pragma_unroll_explicit",
        "meta_schedule.auto_tensorize",
        "meta_schedule.auto_tensorize_init",
        "meta_schedule.inline_rule",
        "meta_schedule.layout_rewrite_preproc",
        "meta_schedule.parallel",
        "meta_schedule.random_compute_producer",
        "meta_schedule.tiling_structure",
        "meta_schedule.unroll_explicit",
        "meta_schedule.unroll_implicit",
        "meta_schedule.vectorize",
    }
)

# Patterns of Python's `repr` of a value: it shows the type of what is at each position.
# `b7`, `l12`, `v3`: a block, loop or number that an earlier instruction gave.
_BLOCK, _LOOP, _NUMBER = (rf"'{letter}\d{{1,6}}'" for letter in "blv")
_PLACE = rf"(?:{_BLOCK}|{_LOOP})"
_FLAG = r"(?:True|False|0|1)"
_NO = r"(?:False|0)"
_COUNT, _SMALL_COUNT = r"[1-9]\d{0,8}", r"[1-9]\d{0,2}"
_INDEX = r"\d{1,3}"
# Also what loops are unrolled or run in parallel by: with more, code generation does not end.
_WHERE = r"-?\d{1,4}"
_SHARE = r"\d{1,9}(?:\.\d{1,20})?(?:e-?\d{1,2})?"
# Names of blocks, functions and intrinsics.
_NAME = r"'[\w.+\- ]{0,500}'"
# A text among the inputs is quoted once more.
_TEXT = r"'\"[\w.+\- ]{0,200}\"'"
_OPEN = r"(?:'None'|None)"


def _list(item: str, *, least: int = 0, most: int = 256) -> str:
    if least == 0:
        return rf"(?:{item}(?:, {item}){{0,{most - 1}}})?"
    return rf"{item}(?:, {item}){{{least - 1},{most - 1}}}"


_KEY = "(?:" + "|".join(f"'{re.escape(key)}'" for key in sorted(ANNOTATIONS)) + ")"
_CACHE = (rf"{_BLOCK}, \[{_list(_BLOCK)}\]", rf"{_INDEX}, 'global'", _BLOCK)
_COMPUTE_AT = (rf"{_BLOCK}, {_LOOP}", rf"{_FLAG}, {_WHERE}", "")
_INLINE = (_BLOCK, "", "")
_NEIGHBOURS = (_BLOCK, "", _list(_BLOCK))
_ON_LOOP = (_LOOP, "", "")

# What the search for CPUs in TVM 0.27 writes, and PadEinsum; nothing that binds GPU threads,
# changes a dtype or hides an access. A kind that a later TVM adds is refused until it was looked
# at. The three parts are inputs, attributes and outputs.
_FORMS: dict[str, tuple[str, str, str]] = {
    "GetSBlock": ("", rf"{_NAME}, {_NAME}", _BLOCK),
    "GetLoops": (_BLOCK, "", _list(_LOOP)),
    "GetChildBlocks": (_PLACE, "", _list(_BLOCK)),
    "GetProducers": _NEIGHBOURS,
    "GetConsumers": _NEIGHBOURS,
    "SampleCategorical": (
        "",
        rf"\[{_list(_WHERE, least=1)}\], \[{_list(_SHARE, least=1)}\]",
        _NUMBER,
    ),
    # A limit of 0 for the innermost factor, which no tile keeps, would be tried for ever.
    "SamplePerfectTile": (_LOOP, rf"\d{{1,2}}, (?:-1|{_COUNT})", _list(_NUMBER, least=2, most=16)),
    "SampleComputeLocation": (_BLOCK, "", _LOOP),
    # The second attribute leaves out the check that keeps the last tile within its buffers.
    "Split": (
        rf"{_LOOP}(?:, (?:{_NUMBER}|{_OPEN}|{_COUNT})){{1,16}}",
        rf"{_FLAG}, {_NO}",
        _list(_LOOP, least=1, most=16),
    ),
    "Fuse": (_list(_LOOP, least=1), _FLAG, _LOOP),
    "Reorder": (_list(_LOOP, least=1), "", ""),
    "Parallel": _ON_LOOP,
    "Vectorize": _ON_LOOP,
    "CacheRead": _CACHE,
    "CacheWrite": _CACHE,
    "ComputeAt": _COMPUTE_AT,
    "ReverseComputeAt": _COMPUTE_AT,
    "ComputeInline": _INLINE,
    "ReverseComputeInline": _INLINE,
    "DecomposeReduction": (rf"{_BLOCK}, {_LOOP}", "", _BLOCK),
    "RFactor": (_LOOP, _WHERE, _BLOCK),
    "Blockize": (_LOOP, _FLAG, _BLOCK),
    "Tensorize": (_PLACE, rf"{_NAME}, {_FLAG}", ""),
    "Annotate": (rf"{_PLACE}, (?:{_WHERE}|{_NUMBER}|{_TEXT}|True|False)", _KEY, ""),
    "Unannotate": (_PLACE, _KEY, ""),
    # Its second input is an index map, a program of its own: see `index_maps`.
    "TransformLayout": (rf"{_BLOCK}, '\{{[^'\\]*\}}'", rf"{_INDEX}, [01], None, {_FLAG}", ""),
    # A multiple beyond this pads no program that is worth padding, and its zeros take memory.
    "PadEinsum": (_BLOCK, rf"\[{_list(_SMALL_COUNT, least=1, most=16)}\]", ""),
    "EnterPostproc": ("", "", ""),
}
INSTRUCTIONS = frozenset(_FORMS)
SAMPLINGS = frozenset({"SampleCategorical", "SamplePerfectTile", "SampleComputeLocation"})
LAYOUTS = frozenset({"TransformLayout"})
_ANNOTATING = frozenset({"Annotate", "Unannotate"})
_PARTS = ("inputs", "attributes", "outputs")


@dataclass(frozen=True)
class _Form:
    whole: re.Pattern[str]
    parts: tuple[re.Pattern[str], ...]


def _compiled(parts: tuple[str, str, str]) -> _Form:
    listed = [rf"\[{part}\]" for part in parts]
    return _Form(re.compile(", ".join(listed)), tuple(re.compile(part) for part in listed))


_COMPILED = {kind: _compiled(parts) for kind, parts in _FORMS.items()}


def complaint(instruction: Any) -> str | None:
    """What is wrong with one instruction `[kind, inputs, attributes, outputs]`, or None.

    The text goes on after `instruction 7 `, and names the kind, and the annotation that it is.
    """
    if type(instruction) is not list or len(instruction) != 4:
        return "has not the four parts of an instruction"
    kind = instruction[0]
    if type(kind) is not str or kind not in _COMPILED:
        return f"is {shown(kind)}, which is not on the list"
    parts = repr(instruction[1:])
    if _is_usual(kind, parts) if len(parts) < _USUAL_LENGTH else _fits(kind, parts):
        return None
    return _what_is_wrong(kind, instruction[1:])


def _fits(kind: str, parts: str) -> bool:
    return _COMPILED[kind].whole.fullmatch(parts, 1, len(parts) - 1) is not None


# The same few instructions are in every trace, and a look-up checks thousands.
_USUAL_LENGTH = 200
_is_usual = lru_cache(maxsize=8192)(_fits)


def _what_is_wrong(kind: str, parts: list[Any]) -> str:
    key = parts[1][0] if type(parts[1]) is list and len(parts[1]) == 1 else parts[1]
    if kind in _ANNOTATING and not (type(key) is str and key in ANNOTATIONS):
        return f"({kind}) has the key {shown(key)}, which is not on the list"
    for name, value, pattern in zip(_PARTS, parts, _COMPILED[kind].parts, strict=True):
        if not pattern.fullmatch(repr(value)):
            return f"({kind}) has the {name} {shown(value)}"
    return f"({kind}) is malformed"


def wrong_decision(instruction: list[Any], decision: Any) -> bool:
    """Whether a decision is none that this sampling instruction, which passed, could have taken.

    Of a tile it is a factor of at least 1 for each output; TVM sets the first of a loop whose
    extent it does not know to -1.
    """
    kind, _, attributes, outputs = instruction
    if kind == "SamplePerfectTile":
        return (
            type(decision) is not list
            or not len(decision) == len(outputs) == attributes[0]
            or any(type(factor) is not int for factor in decision)
            or not all(0 < factor < 1 << 31 for factor in decision[1:])
            or not -1 <= decision[0] < 1 << 31
        )
    if type(decision) is not int:
        return True
    if kind == "SampleCategorical":
        return not (0 <= decision < len(attributes[0]) == len(attributes[1]))
    return kind != "SampleComputeLocation" or not -2 <= decision < 1 << 16


def shown(value: Any) -> str:
    """A value from outside, short enough for a line and without control characters."""
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "..."
