"""Traces are untrusted code: only what is listed here is ever replayed.

A trace that was put into the database from outside can compile text of its own into the product
(the annotations `pragma_import_llvm` and `pragma_import_c` do just that), and comparing numbers
would not notice. So instruction kinds, annotation keys, and every value have their list.

The JSON form of a trace is `[instructions, decisions]`, an instruction
`[kind, inputs, attributes, outputs]`, a decision `[index of the instruction, value]`.
"""

from __future__ import annotations

import json
import re
from itertools import chain
from typing import Any

from tunebook.cache.errors import UntrustedTraceError
from tunebook.cache.index_maps import check_index_map

SIZE_LIMIT = 4 * 1024 * 1024

# What the search for CPUs in TVM 0.27 writes, and nothing that binds GPU threads, changes a dtype
# or hides an access. A kind that a later TVM adds is refused until it has been looked at.
INSTRUCTIONS = frozenset(
    {
        "GetSBlock",
        "GetLoops",
        "GetChildBlocks",
        "GetProducers",
        "GetConsumers",
        "GetOutputBlocks",
        "SampleCategorical",
        "SamplePerfectTile",
        "SamplePartitionedTile",
        "SampleComputeLocation",
        "Split",
        "Merge",
        "Fuse",
        "Reorder",
        "ReorderBlockIterVar",
        "AddUnitLoop",
        "Parallel",
        "Vectorize",
        "Unroll",
        "CacheRead",
        "CacheWrite",
        "ReIndex",
        "ComputeAt",
        "ReverseComputeAt",
        "ComputeInline",
        "ReverseComputeInline",
        "DecomposeReduction",
        "RFactor",
        "StorageAlign",
        "Blockize",
        "Tensorize",
        "Annotate",
        "Unannotate",
        "TransformLayout",
        "TransformBlockLayout",
        "DecomposePadding",
        "PadEinsum",
        "EnterPostproc",
    }
)
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
_ANNOTATING = frozenset({"Annotate", "Unannotate"})
_LAYOUTS = frozenset({"TransformLayout", "TransformBlockLayout"})
_FLAT = INSTRUCTIONS - _LAYOUTS
# Asked by equality: what comes from outside may be of a kind that no set can be asked for.
_ANNOTATION_LIST = tuple(ANNOTATIONS)
# `b7`, `l12`, `v3`: a block, loop or number that an earlier instruction gave.
_VARIABLE = re.compile(r"[a-z]\d{1,6}")
_VARIABLES = frozenset(f"{letter}{number}" for letter in "blv" for number in range(500))
# An input is one of these, or a text quoted once more (`"SSRSRS"`), or a factor left open.
_INPUT = re.compile(r'[a-z]\d{1,6}|"[\w.+\- ]{0,200}"|None')
# Names of blocks, functions, storage scopes and intrinsics.
_NAME = re.compile(r"[\w.+\- ]{0,500}")
_NUMBERS = (int, float)
_LARGEST = 1 << 62


def check_trace(trace: str) -> None:
    """Raises UntrustedTraceError, naming the instruction or annotation, for a trace that holds
    anything outside the lists, is malformed, or is too large; never any other error."""
    if len(trace) > SIZE_LIMIT:
        raise UntrustedTraceError(
            f"the trace is refused: {len(trace)} characters, more than {SIZE_LIMIT}"
        )
    try:
        _check(trace)
    except _Refused as refused:
        raise UntrustedTraceError(f"the trace is refused: {refused}") from None


class _Refused(Exception):
    """What is wrong, in words."""


def _no_constant(name: str) -> Any:
    raise _Refused(f"it holds the number {name}")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _check(trace: str) -> None:
    try:
        parsed = _DECODER.decode(trace)
    except (ValueError, RecursionError):
        raise _Refused("it is not JSON of a trace") from None
    if not isinstance(parsed, list) or len(parsed) != 2:
        raise _Refused("it is not a list of instructions and a list of decisions")
    instructions, decisions = parsed
    if not isinstance(instructions, list) or not isinstance(decisions, list):
        raise _Refused("it is not a list of instructions and a list of decisions")
    if not passes_at_a_glance(instructions):
        for number, instruction in enumerate(instructions):
            _check_instruction(number, instruction)
    for decision in decisions:
        _check_decision(decision, len(instructions))


def passes_at_a_glance(instructions: list[Any]) -> bool:
    """Whether all instructions are of the common, flat kind and on the lists.

    A look-up checks thousands of instructions: sets compare them twice as fast as the careful
    check does one by one. That one decides, and finds the words, wherever this one says no.
    """
    try:
        kinds, inputs, attributes, outputs = zip(*instructions, strict=True)
        if not set(kinds) <= _FLAT or not set(chain.from_iterable(outputs)) <= _VARIABLES:
            return False
        flat = list(chain.from_iterable(inputs))
        lists = [value for value in flat if type(value) is list]
        unusual = {value for value in flat if type(value) is not list} - _VARIABLES
    except (TypeError, ValueError):
        return False
    if set(map(type, chain(inputs, attributes, outputs))) != {list}:
        return False
    if not all(map(_is_input, unusual)) or not all(map(_is_input, lists)):
        return False
    for kind, values in zip(kinds, attributes, strict=True):
        if kind in _ANNOTATING:
            if len(values) != 1 or values[0] not in _ANNOTATION_LIST:
                return False
        elif not all(map(_is_attribute, values)):
            return False
    return True


def _check_instruction(number: int, instruction: Any) -> None:
    if not isinstance(instruction, list) or len(instruction) != 4:
        raise _Refused(f"instruction {number} has not the four parts of an instruction")
    kind, inputs, attributes, outputs = instruction
    if not isinstance(kind, str) or kind not in INSTRUCTIONS:
        raise _Refused(f"instruction {number} is {_shown(kind)}, which is not on the list")
    if not (
        isinstance(inputs, list) and isinstance(attributes, list) and isinstance(outputs, list)
    ):
        raise _Refused(f"instruction {number} ({kind}) has parts that are no lists")
    if kind in _ANNOTATING:
        key = attributes[0] if len(attributes) == 1 else attributes
        if not isinstance(key, str) or key not in ANNOTATIONS:
            raise _Refused(
                f"instruction {number} ({kind}) has the key {_shown(key)}, which is not on the list"
            )
    elif kind in _LAYOUTS:
        inputs = _without_index_map(number, kind, inputs)
    if not all(map(_is_input, inputs)):
        raise _Refused(f"instruction {number} ({kind}) has the inputs {_shown(inputs)}")
    if not all(map(_is_attribute, attributes)):
        raise _Refused(f"instruction {number} ({kind}) has the attributes {_shown(attributes)}")
    if not all(map(_is_output, outputs)):
        raise _Refused(f"instruction {number} ({kind}) has the outputs {_shown(outputs)}")


def _without_index_map(number: int, kind: str, inputs: list[Any]) -> list[Any]:
    """A layout's second input is a program of its own: how the new index follows from the old."""
    if len(inputs) != 2 or not isinstance(inputs[1], str):
        raise _Refused(f"instruction {number} ({kind}) has not a block and an index map")
    complaint = check_index_map(inputs[1])
    if complaint is not None:
        raise _Refused(f"instruction {number} ({kind}) has an index map that {complaint}")
    return inputs[:1]


def _is_input(value: Any, depth: int = 0) -> bool:
    if isinstance(value, str):
        return _INPUT.fullmatch(value) is not None
    if isinstance(value, list):
        return depth < 2 and all(_is_input(item, depth + 1) for item in value)
    return _is_number(value)


def _is_attribute(value: Any, depth: int = 0) -> bool:
    if isinstance(value, str):
        return _NAME.fullmatch(value) is not None
    if isinstance(value, list):
        return depth < 2 and all(_is_attribute(item, depth + 1) for item in value)
    return _is_number(value)


def _is_output(value: Any) -> bool:
    return isinstance(value, str) and _VARIABLE.fullmatch(value) is not None


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, _NUMBERS) and -_LARGEST < value < _LARGEST)


def _check_decision(decision: Any, instructions: int) -> None:
    if not isinstance(decision, list) or len(decision) != 2:
        raise _Refused(f"it has the decision {_shown(decision)}")
    index, value = decision
    factors = value if isinstance(value, list) else [value]
    numbers = all(_is_number(factor) and not isinstance(factor, float) for factor in factors)
    if not isinstance(index, int) or not 0 <= index < instructions or not numbers:
        raise _Refused(f"it has the decision {_shown(decision)}")


def _shown(value: Any) -> str:
    """A value from outside, short enough for a line and without control characters."""
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "..."
