"""What the tests of a TunebookDatabase share."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

from tunebook.cache.records import Candidate, Model
from tunebook.cache.store import Store
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.importing.imported_model import ImportedModel

Read = Callable[..., ImportedModel]
Fill = Callable[[Store, Model, Sequence[Candidate]], None]
UNSCHEDULED = json.dumps([[], []])
SCHEDULED = "tirx.is_scheduled"


def apply(database: Any, module: Any) -> Any:
    with database.target, database:
        return relax.transform.MetaScheduleApplyDatabase()(module)


def scheduled(module: Any) -> list[str]:
    """The names of the functions that got a schedule."""
    return sorted(
        variable.name_hint
        for variable, function in module.functions.items()
        if isinstance(function, tvm.tirx.PrimFunc) and function.attrs.get(SCHEDULED, False)
    )


def functions(module: Any) -> list[str]:
    return sorted(
        variable.name_hint
        for variable, function in module.functions.items()
        if isinstance(function, tvm.tirx.PrimFunc)
    )


def run(executable: Any, image: Any) -> Any:
    machine = relax.VirtualMachine(executable, tvm.cpu())
    return machine["main"](tvm.runtime.tensor(image)).numpy()


def alter(folder: Path, table: str, column: str, value: str | int) -> None:
    """By hand, since nothing of ours would store it."""
    with sqlite3.connect(folder / "tunebook.db") as database:
        database.execute(f"UPDATE {table} SET {column} = ?", (value,))


def hash_of(module: Any) -> str:
    """Of a module with one function, as TVM normalises it."""
    (function,) = module.functions.values()
    return module_hash(tvm.IRModule({"main": function.with_attr("global_symbol", "main")}))
