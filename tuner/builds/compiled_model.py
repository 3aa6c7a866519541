"""A built model: its library, its manifest, and running it on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax

from tunebook.cache.errors import ModelError
from tunebook.cache.misses import Miss
from tunebook.tuner.builds.manifest import Manifest
from tunebook.tuner.llvm_targets import runs_here
from tunebook.tuner.tvm_compat import size_thread_pool

Array = NDArray[np.generic]


@dataclass(frozen=True)
class CompiledModel:
    """A library with its manifest; `misses` are the tasks that run untuned code."""

    library: Path
    manifest_path: Path
    manifest: Manifest
    misses: tuple[Miss, ...]

    @property
    def hits(self) -> int:
        """How many tasks were built from a schedule of the cache."""
        return sum(1 for task in self.manifest.tasks if task.record_id is not None)

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The outputs in the model's order, of inputs by name; on this machine only.

        Raises ModelError for a library of another architecture, and for inputs that are not the
        model's.
        """
        machine = self._machine
        machine.set_input("main", *self._arguments(inputs))
        machine.invoke_stateful("main")
        outputs = machine.get_outputs("main")
        several = outputs if isinstance(outputs, tuple | list) else (outputs,)
        return [output.numpy() for output in several]

    @cached_property
    def _machine(self) -> Any:
        if not runs_here(self.manifest.target):
            raise ModelError(
                f"{self.library} is built for {self.manifest.target}, which this machine does not "
                f"run; run it on a board"
            )
        size_thread_pool(self.manifest.threads)
        return relax.VirtualMachine(tvm.runtime.load_module(str(self.library)), tvm.cpu())

    def _arguments(self, inputs: Mapping[str, Array]) -> list[Any]:
        wanted = [one.name for one in self.manifest.inputs]
        if sorted(wanted) != sorted(inputs):
            raise ModelError(
                f"the model's inputs are {', '.join(wanted)}; given are {', '.join(inputs)}"
            )
        arguments = []
        for one in self.manifest.inputs:
            array = inputs[one.name]
            if array.shape != one.shape or str(array.dtype) != one.dtype:
                raise ModelError(
                    f"input {one.name!r} must be {one.dtype}{list(one.shape)}, not "
                    f"{array.dtype}{list(array.shape)}"
                )
            arguments.append(tvm.runtime.tensor(np.ascontiguousarray(array)))
        return arguments
