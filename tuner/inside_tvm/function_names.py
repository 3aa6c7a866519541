"""What the name of a function says about its operators, where nothing else does."""

from __future__ import annotations

from tunebook.tuner.splitting.op_names import known_names, known_operator

_FUSED = "fused"  # FuseOps puts it before the names of what it fused, joined by underscores


def op_in_name(function: str) -> str:
    """The op text (`conv2d+add+relu`) that a function's name tells (`fused_conv2d7_add4_relu4`).

    A guess: operators' names hold underscores and digits themselves, so the longest that TVM knows
    is taken each time. Fit to explain a miss; keys of what was split out of a model have the
    operators that were noted there.
    """
    parts = [part for part in function.split("_") if part != _FUSED]
    operators = []
    while parts:
        count, operator = _first_operator(parts)
        operators.append(operator)
        del parts[:count]
    return "+".join(operators) or function


def _first_operator(parts: list[str]) -> tuple[int, str]:
    """How many parts make up the first operator's name, and that name without its number."""
    for count in range(len(parts), 0, -1):
        operator = known_operator("_".join(parts[:count]))
        if operator in known_names():
            return count, operator
    return 1, known_operator(parts[0]) or parts[0]
