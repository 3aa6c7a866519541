"""The workload that a program from outside makes, described from the program alone."""

from __future__ import annotations

import tvm

from tunebook.cache.buffers import buffers_text, parse_buffers
from tunebook.cache.errors import ModelError
from tunebook.cache.keys import WorkloadKey
from tunebook.cache.records import Workload
from tunebook.cache.untrusted.untrusted_programs import checked_program
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.interchange.block_operators import operators_in
from tunebook.tuner.splitting.likeness import likeness_of
from tunebook.tuner.splitting.program import ENTRY, arguments_of, flops_of


def foreign_workload(text: str) -> Workload:
    """Loads a program's JSON text, in a process that may die of it (foreign_programs.py).

    The hash is that of what was loaded, whatever the file says it is. Raises UntrustedProgramError
    before anything is loaded that holds more than a program does, ModelError for what is no
    workload, and whatever TVM raises for what is no module.
    """
    module = tvm.ir.load_json(checked_program(text))
    if not isinstance(module, tvm.IRModule):
        raise ModelError("it is not a module")
    names = [variable.name_hint for variable in module.get_global_vars()]
    if names != [ENTRY] or not isinstance(module[ENTRY], tvm.tirx.PrimFunc):
        raise ModelError(f"its functions are {', '.join(names) or 'none'}, not {ENTRY} alone")
    buffers = buffers_text(arguments_of(module))
    parse_buffers(buffers)  # a dtype that the text cannot hold would be found when it is stored
    key = WorkloadKey(
        op=operators_in(module[ENTRY]),
        buffers=buffers,
        compiler=compiler_text(),
        hash=module_hash(module),
    )
    # The operators' attributes are not in a program.
    return Workload(key, tvm.ir.save_json(module), flops_of(module), likeness_of(module, ""))
