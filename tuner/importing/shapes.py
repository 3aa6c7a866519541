"""Input shapes as people give them (`name=1,3,224,224`) and as records state them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tunebook.cache.errors import ModelError, UsageError
from tunebook.tuner.importing.imported_model import TensorSpec

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class DeclaredInput:
    """An input as the model file declares it: each dimension a size, or a name where it is open.

    `dimensions` is None where the file does not even state the rank.
    """

    name: str
    dimensions: tuple[int | str, ...] | None

    @property
    def is_fixed(self) -> bool:
        return self.dimensions is not None and all(isinstance(d, int) for d in self.dimensions)

    def __str__(self) -> str:
        if self.dimensions is None:
            return f"{self.name}[of unknown rank]"
        return f"{self.name}[{','.join(map(str, self.dimensions))}]"


def parse_shape_option(text: str) -> tuple[str, tuple[int, ...]]:
    """Reads `name=1,3,224,224`; the name may itself hold `=`. Raises UsageError."""
    name, equals, sizes = text.rpartition("=")
    if not equals or not name or not sizes.strip():
        raise UsageError(f"--shape {text!r} is not of the form name=1,3,224,224")
    try:
        shape = tuple(int(size) for size in sizes.split(","))
    except ValueError:
        raise UsageError(
            f"--shape {text!r}: {sizes!r} is not a list of whole numbers like 1,3,224,224"
        ) from None
    _require_positive(name, shape)
    return name, shape


def parse_shape_options(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Reads several `--shape` options; one input may be named once. Raises UsageError."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, shape = parse_shape_option(text)
        if name in shapes:
            raise UsageError(f"--shape is given twice for {name!r}; give it once")
        shapes[name] = shape
    return shapes


def fix_shapes(declared: Sequence[DeclaredInput], given: Shapes) -> dict[str, tuple[int, ...]]:
    """The shape of every input: what is given, else what the model fixes.

    Raises UsageError for a shape that does not fit the model, ModelError when one is missing.
    """
    _refuse_unknown_names(declared, given)
    fixed = {one.name: _fix(one, given[one.name]) for one in declared if one.name in given}
    open_inputs = [one for one in declared if one.name not in given and not one.is_fixed]
    if open_inputs:
        raise ModelError(
            f"the model leaves dimensions open: {' '.join(map(str, open_inputs))}; fix them with "
            + " ".join(_option_to_give(one) for one in open_inputs)
        )
    for one in declared:
        if one.name not in fixed:
            fixed[one.name] = tuple(int(d) for d in one.dimensions or ())
    return fixed


def shapes_text(inputs: Iterable[TensorSpec]) -> str:
    """The canonical text of input shapes: `a=1,3 b=2,2`, sorted by name."""
    ordered = sorted(inputs, key=lambda one: one.name)
    return " ".join(f"{one.name}={','.join(map(str, one.shape))}" for one in ordered)


def _refuse_unknown_names(declared: Sequence[DeclaredInput], given: Shapes) -> None:
    names = [one.name for one in declared]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise UsageError(
            f"--shape names {', '.join(map(repr, unknown))}, but the model's inputs are: "
            f"{', '.join(names)}"
        )


def _fix(declared: DeclaredInput, shape: tuple[int, ...]) -> tuple[int, ...]:
    _require_positive(declared.name, shape)
    if declared.dimensions is None:
        return shape
    if len(shape) != len(declared.dimensions):
        raise UsageError(
            f"--shape for {declared.name!r} has {len(shape)} dimensions, but the model declares "
            f"{len(declared.dimensions)}: {declared}"
        )
    for axis, (size, dimension) in enumerate(zip(shape, declared.dimensions, strict=True)):
        if isinstance(dimension, int) and size != dimension:
            raise UsageError(
                f"--shape for {declared.name!r} gives {size} on axis {axis}, where the model "
                f"fixes {dimension}: {declared}"
            )
    return shape


def _require_positive(name: str, shape: Sequence[int]) -> None:
    wrong = [size for size in shape if size <= 0]
    if wrong:
        raise UsageError(f"--shape for {name!r} holds {wrong[0]}; every dimension must be positive")


def _option_to_give(declared: DeclaredInput) -> str:
    if declared.dimensions is None:
        return f"--shape {declared.name}=N,..."
    sizes = (str(d) if isinstance(d, int) else "N" for d in declared.dimensions)
    return f"--shape {declared.name}={','.join(sizes)}"
