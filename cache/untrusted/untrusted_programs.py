"""Programs from outside are untrusted code: only what is listed here is ever loaded.

A program's JSON text is a graph of objects of any class that TVM knows, and its calls name any
function. So the classes, the functions that are called, and the names of attributes each have
their list: what fused operators consist of before they are scheduled, and nothing that calls out
of the program, or carries text that a compiler would read (pragmas).

The text is `{"root_index": r, "nodes": [...]}`, a node `{"type": class, "data": ...}`, in which
other nodes are numbers. Whether the parts fit together is not checked here but for those that are
missing: loading what passes may still end the process, and is done where it may.
"""

from __future__ import annotations

import json
from typing import Any

from tunebook.cache.errors import UntrustedProgramError
from tunebook.cache.untrusted.trace_grammar import shown

NODE_LIMIT = 200_000
_TEXT_LIMIT = 1000

_EXPRESSIONS = (
    "Add Sub Mul Div Mod FloorDiv FloorMod Min Max EQ NE LT LE GT GE And Or Not Select Cast Let "
    "BitwiseAnd BitwiseOr BitwiseXor BitwiseNot LShift RShift Broadcast Ramp"
)
_MATHEMATICS = (
    "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh erf exp exp10 exp2 fabs floor "
    "fma fmod hypot if_then_else isfinite isinf isnan ldexp likely log log10 log1p log2 nearbyint "
    "nextafter popcount pow q_multiply_shift q_multiply_shift_per_axis reinterpret round rsqrt "
    "sigmoid sin sinh sqrt tan tanh trunc"
)
CLASSES = frozenset(
    {
        *("None", "bool", "int", "float", "ffi.String", "ffi.Array", "ffi.Map"),
        *("ir.IRModule", "ir.GlobalVar", "ir.SourceMap", "ir.DictAttrs", "ir.Call", "ir.Op"),
        *("ir.Var", "ir.IntImm", "ir.FloatImm", "ir.StringImm", "ir.Range"),
        *("ir.TensorLoad", "ir.TensorRegion"),
        *("ir.Type", "ir.PrimType", "ir.PointerType", "ir.StringType", "ir.TupleType"),
        *("relax.FuncType", "relax.ShapeType", "relax.TensorType", "relax.expr.ShapeExpr"),
        *(f"prim.{name}" for name in _EXPRESSIONS.split()),
        *("s_tir.SBlock", "s_tir.SBlockRealize", "s_tir.MatchBufferRegion"),
        *("tirx.PrimFunc", "tirx.BufferType", "tirx.BufferRegionType", "tirx.BufferStore"),
        *("tirx.For", "tirx.IterVar", "tirx.SeqStmt", "tirx.Evaluate", "tirx.IfThenElse"),
        *("tirx.While", "tirx.Bind", "tirx.AllocBuffer", "tirx.DeclBuffer"),
    }
)
FUNCTIONS = frozenset(
    {
        *(f"prim.{name}" for name in ("ceil", "clz", "if_then_else", "likely", "log2")),
        *(f"tirx.{name}" for name in _MATHEMATICS.split()),
    }
)
ATTRIBUTES = frozenset(
    {
        "main",
        "global_symbol",
        "tirx.noalias",
        "s_tir",
        "op_pattern",
        "axis",
        "schedule_rule",
        "layout_free_buffers",
        "layout_free_placeholders",
    }
)
# Fields that may be empty, and those that hold a number and not another part's.
_OPTIONAL = frozenset(
    {
        *("span", "attrs", "init", "step", "thread_binding", "else_case"),
        *("layout", "vdevice", "derive_func"),
    }
)
_NUMBERS = frozenset({"kind", "iter_type", "ndim", "data_alignment", "offset_factor", "purity"})
_PRAGMA = "pragma_"


def checked_program(text: str) -> str:
    """The program's JSON text, written anew from what was checked: another reader might see
    something else in the first, of a name that stands there twice for example.

    Raises UntrustedProgramError, naming the part, for one that holds anything outside the lists, is
    malformed, or is too large; never any other error.
    """
    try:
        parsed = json.loads(text)
        nodes = parsed["nodes"]
        root = parsed["root_index"]
        if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in nodes):
            raise TypeError
    except (ValueError, TypeError, KeyError, RecursionError):
        raise _refused("it is not JSON of a program") from None
    if len(nodes) > NODE_LIMIT:
        raise _refused(f"{len(nodes)} parts, more than {NODE_LIMIT}")
    empty = {index for index, node in enumerate(nodes) if node.get("type") == "None"}
    for node in nodes:
        _check_listed(node, nodes)
        _check_parts_present(node, empty)
    return json.dumps({"root_index": root, "nodes": nodes})


def _check_listed(node: dict[str, Any], nodes: list[dict[str, Any]]) -> None:
    kind, data = node.get("type"), node.get("data")
    if not isinstance(kind, str) or kind not in CLASSES:
        raise _refused(f"it holds {shown(kind)}, which is not on the list")
    if kind == "ir.Op" and (not isinstance(data, str) or data not in FUNCTIONS):
        raise _refused(f"it calls {shown(data)}, which is not on the list")
    if kind == "ffi.String":
        _check_text(data)
    if kind == "ffi.Map":
        for name in data[::2] if isinstance(data, list) else [data]:
            _check_attribute(name, nodes)


def _check_parts_present(node: dict[str, Any], empty: set[int]) -> None:
    """TVM takes a part that is missing, and ends the process when it looks at it."""
    data = node.get("data")
    fields = data.items() if isinstance(data, dict) else ()
    for name, value in fields:
        if name not in _OPTIONAL | _NUMBERS and type(value) is int and value in empty:
            raise _refused(f"its {node['type']} has no {shown(name)}")
    if isinstance(data, list) and any(type(one) is int and one in empty for one in data):
        raise _refused(f"its {node['type']} has an empty place")


def _check_text(data: Any) -> None:
    if not isinstance(data, str) or len(data) > _TEXT_LIMIT or _PRAGMA in data:
        raise _refused(f"it holds the text {shown(data)}")


def _check_attribute(index: Any, nodes: list[dict[str, Any]]) -> None:
    """The names in a map are attributes; that of a module's functions has variables instead."""
    node = nodes[index] if type(index) is int and 0 <= index < len(nodes) else {}
    name = node.get("data")
    if node.get("type") == "ir.GlobalVar":
        return
    if node.get("type") != "ffi.String" or not isinstance(name, str) or name not in ATTRIBUTES:
        raise _refused(f"it has the attribute {shown(name)}, which is not on the list")


def _refused(what: str) -> UntrustedProgramError:
    return UntrustedProgramError(f"the program is refused: {what}")
