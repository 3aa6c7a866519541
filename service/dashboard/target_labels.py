"""Short names of targets: what a person calls them, as long as that tells them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tunebook.cache.errors import TargetError
from tunebook.cache.targets import Target


def target_labels(targets: Iterable[str]) -> dict[str, str]:
    """A label for each canonical target text: processor and cores; where several share that, what
    else they say too; the whole text for what is no target, and where even that is not enough."""
    texts = list(dict.fromkeys(targets))
    labels = {text: text for text in texts}
    for told in (_in_full, _in_short):
        told_by = {text: told(text) for text in texts}
        counts = Counter(told_by.values())
        labels.update({text: label for text, label in told_by.items() if counts[label] == 1})
    return labels


def _in_short(text: str) -> str:
    target = _parsed(text)
    return text if target is None else f"{_processor(target)}, {_cores(target)}"


def _in_full(text: str) -> str:
    target = _parsed(text)
    if target is None:
        return text
    said = [
        target.architecture,
        *target.mattr,
        *(f"{name}={value}" for name, value in target.options),
    ]
    extra = " ".join(one for one in said if one)
    return f"{_processor(target)} ({extra}), {_cores(target)}" if extra else _in_short(text)


def _parsed(text: str) -> Target | None:
    try:
        return Target.parse(text)
    except TargetError:
        return None


def _processor(target: Target) -> str:
    return target.mcpu or target.architecture or target.mtriple


def _cores(target: Target) -> str:
    return "1 core" if target.num_cores == 1 else f"{target.num_cores} cores"
