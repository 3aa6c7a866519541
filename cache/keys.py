"""The key of a schedule: what it was tuned for, and which compiler can replay it."""

from __future__ import annotations

from dataclasses import dataclass

_SEPARATOR = " | "


@dataclass(frozen=True, order=True)
class WorkloadKey:
    """One fused tensor program as one compiler splits it out of a model.

    `op` is the fused operators in order (`conv2d+add+relu`), `buffers` the dtypes and full shapes
    of inputs and outputs (`f32[1,64,56,56] f32[64] -> f32[1,64,56,56]`), `compiler` for example
    `tvm-0.27.0+llvm-22`, `hash` the structural hash of the normalised function, 16 hex digits.
    """

    op: str
    buffers: str
    compiler: str
    hash: str

    def on(self, target: str) -> ScheduleKey:
        """The key of this workload's schedule on a canonical target."""
        return ScheduleKey(self.op, self.buffers, target, self.compiler, self.hash)


@dataclass(frozen=True, order=True)
class ScheduleKey:
    """The five parts of a look-up; a hit needs all five."""

    op: str
    buffers: str
    target: str
    compiler: str
    workload_hash: str

    def __str__(self) -> str:
        parts = (self.op, self.buffers, self.target, self.compiler, self.workload_hash)
        return _SEPARATOR.join(parts)

    @classmethod
    def parse(cls, text: str) -> ScheduleKey:
        """Reads the text that `str` gives. Raises ValueError when it has not five parts."""
        parts = text.split(_SEPARATOR)
        if len(parts) != 5:
            raise ValueError(f"a schedule key has five parts separated by ' | ', not {len(parts)}")
        return cls(*parts)

    @property
    def workload(self) -> WorkloadKey:
        """The part of the key that does not depend on the target."""
        return WorkloadKey(self.op, self.buffers, self.compiler, self.workload_hash)
