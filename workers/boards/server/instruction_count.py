"""A kernel's instructions, counted where an emulator keeps count of them."""

from __future__ import annotations

import gc
import mmap
from collections.abc import Sequence
from typing import Any

import tvm_ffi

from tunebook.workers.boards.server.calls_in_a_row import calls_in_a_row

# Of so many instructions, what differs between the first call and others is next to nothing.
SURE_INSTRUCTIONS = 4_000_000
# More takes the emulator seconds.
MOST_INSTRUCTIONS = 400_000_000
# A kernel is called so often more that it makes up so many instructions.
MORE_INSTRUCTIONS = 2_000_000
MOST_CALLS = 20
SETTLING_COUNTS = 4
NOTHING = "tunebook.board.nothing"


class InstructionCounter:
    """Counts a kernel's instructions, where an emulator keeps count of all that it executes.

    `file` is the descriptor of a page that begins with the count so far, as an unsigned 64-bit
    number of this process alone (count_instructions.c).
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._around: dict[int, int] = {}
        tvm_ffi.register_global_func(NOTHING, lambda *_: None, override=True)

    def count(self, module: Any, name: str, *arguments: Any) -> float:
        """The instructions of one call of a module's function, after a few others.

        What surrounds calls costs instructions too. Of a large kernel's calls that is taken off;
        those of a small one are counted twice, once with more of them, and the difference is
        theirs alone.
        """
        gc.disable()  # it would cost whichever call it happens in
        first = self._spent(module, name, 1, arguments)
        if first > MOST_INSTRUCTIONS:
            return (first - self._spent_around(arguments)) / 2
        # Again: what is done for the first time costs more.
        few = self._spent(module, name, 1, arguments)
        if few > SURE_INSTRUCTIONS:
            return (few - self._spent_around(arguments)) / 2
        few = self._settled(module, name, 1, arguments, few)
        more = max(1, min(MOST_CALLS, MORE_INSTRUCTIONS // few))
        return (self._settled(module, name, 1 + more, arguments) - few) / more

    def _spent_around(self, arguments: Sequence[Any]) -> int:
        """What surrounds calls with so many arguments, whatever is called."""
        count = len(arguments)
        if count not in self._around:
            few, more = (self._settled(None, NOTHING, calls, arguments) for calls in (1, 3))
            self._around[count] = few - (more - few)
        return self._around[count]

    def _settled(
        self, module: Any, name: str, calls: int, arguments: Sequence[Any], known: int | None = None
    ) -> int:
        """What is spent again and again, or the least: now and then the guest does more, such as
        asking for memory."""
        seen = [] if known is None else [known]
        for _ in range(SETTLING_COUNTS):
            spent = self._spent(module, name, calls, arguments)
            if spent in seen:
                return spent
            seen.append(spent)
        return min(seen)

    def _spent(self, module: Any, name: str, calls: int, arguments: Sequence[Any]) -> int:
        """The instructions of 1 + calls, and of what surrounds them."""
        # TVM's loop around a kernel is native code, of a few instructions a call.
        call = calls_in_a_row(module, name, calls, 1)
        with (
            mmap.mmap(self._file, mmap.PAGESIZE, prot=mmap.PROT_READ) as page,
            memoryview(page).cast("Q") as counts,
        ):
            before = counts[0]
            call(*arguments)
            return counts[0] - before
