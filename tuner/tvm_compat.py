"""Every work-around for the pinned TVM, each with its reason and the version in which it can go.

This module imports TVM only inside its functions, so that a wrong version is named before it can
crash.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.machinery
import io
import os
import socket
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import CodeType
from typing import Any

from tunebook.cache.errors import IncompatibleError
from tunebook.tuner.one_line import one_line


@dataclass(frozen=True)
class _Pin:
    distribution: str
    accepted: tuple[str, ...]  # versions, or version prefixes that end with a dot
    install: str  # the version to install

    def accepts(self, version: str) -> bool:
        return any(
            version.startswith(one) if one.endswith(".") else version == one
            for one in self.accepted
        )


# apache-tvm declares apache-tvm-ffi>=0.1.14.post0 and pip then takes 0.1.15, with which saving IR
# as JSON ends in a segmentation fault. Can go with the first TVM that declares an upper bound.
_PINS = (
    _Pin("apache-tvm", ("0.27.0", "0.27.0."), "0.27.0.post1"),
    _Pin("apache-tvm-ffi", ("0.1.14", "0.1.14."), "0.1.14.post1"),
)
_CPU_INTRINSICS = ("dot_product_common", "x86", "arm_cpu")
_INTRINSICS_PACKAGE = "tvm.s_tir.tensor_intrin"
BIG_CORES = 1  # of runtime.config_threadpool: the fastest cores
_load_lock = threading.Lock()
_added_function_listener: ContextVar[Callable[[str, str], None] | None] = ContextVar(
    "_added_function_listener", default=None
)
# Two threads that took turns would restore what the other had put there.
_stderr_lock = threading.RLock()


def check_versions(*, required: bool = True) -> None:
    """Raises IncompatibleError unless TVM and its FFI are installed in versions known to work.

    Reads the installed packages' metadata and never imports TVM. `required=False` lets a missing
    TVM pass: whoever only allocates or looks up needs none.
    """
    for pin in _PINS:
        version = _installed(pin.distribution)
        if version is None and required:
            raise IncompatibleError(
                f"{pin.distribution} is not installed and Tunebook needs {pin.install}; "
                f'run: pip install "tunebook[tune]"'
            )
        if version is not None and not pin.accepts(version):
            raise IncompatibleError(
                f"{pin.distribution} {version} is installed, which this Tunebook cannot work with; "
                f"it needs {pin.install}; run: pip install {_install_arguments()}"
            )


def _installed(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _install_arguments() -> str:
    return " ".join(f'"{pin.distribution}=={pin.install}"' for pin in _PINS)


def load_cpu_intrinsics() -> None:
    """Registers TVM's tensor intrinsics for CPUs in a second where the import takes 39.

    Each prim_func of `tvm.s_tir.tensor_intrin` calls `inspect.stack()`, and for every frame whose
    file does not exist (`<frozen importlib>`, `<string>`) inspect scans all modules. So the files
    are executed in a thread of their own, which has no such frames, and only those for CPUs. The
    package itself is replaced by an empty one, which makes the imports that TuneContext and the
    builder do find it loaded. Can go when importing the package takes less than a second (TVM
    0.27 does not).
    """
    with _load_lock:
        if _INTRINSICS_PACKAGE in sys.modules:
            return
        package = _stand_in_package()
        sys.modules[_INTRINSICS_PACKAGE] = package
        failures: list[Exception] = []
        thread = threading.Thread(target=_execute_intrinsics, args=(package, failures))
        thread.start()
        thread.join()
        if failures:
            del sys.modules[_INTRINSICS_PACKAGE]
            raise failures[0]


def _stand_in_package() -> types.ModuleType:
    # Imported here so that the thread below finds all that it needs loaded.
    import tvm.s_tir
    import tvm.script.tirx
    import tvm.target.codegen

    folder = Path(tvm.s_tir.__file__).parent / "tensor_intrin"
    package = types.ModuleType(_INTRINSICS_PACKAGE)
    package.__path__ = [str(folder)]
    package.__package__ = _INTRINSICS_PACKAGE
    package.__spec__ = importlib.machinery.ModuleSpec(_INTRINSICS_PACKAGE, None, is_package=True)
    tvm.s_tir.tensor_intrin = package
    return package


def _execute_intrinsics(package: types.ModuleType, failures: list[Exception]) -> None:
    try:
        for name in _CPU_INTRINSICS:
            module = types.ModuleType(f"{_INTRINSICS_PACKAGE}.{name}")
            module.__package__ = _INTRINSICS_PACKAGE
            path = Path(package.__path__[0]) / f"{name}.py"
            module.__file__ = str(path)
            sys.modules[module.__name__] = module
            exec(_compiled(path), module.__dict__)
            setattr(package, name, module)
    except Exception as error:
        failures.append(error)


def _compiled(path: Path) -> CodeType:
    return compile(path.read_text(encoding="utf-8"), str(path), "exec")


@contextlib.contextmanager
def silent_native_stderr() -> Iterator[None]:
    """Drops what this process writes to stderr meanwhile, since native code can be silenced no
    other way; whoever shows progress or logs does so on a copy of stderr made before.

    A search prints every trace that does not fit, and LLVM prints `'+x' is not a recognized
    feature` where TVM offers no question to ask instead. Can go when TVM lists the features of a
    triple (0.27 lists only those that are switched on) and logs through Python.
    """
    with _stderr_lock:
        sys.stderr.flush()
        saved = os.dup(2)
        try:
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), 2)
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)


def attempt(step: Callable[[], Any]) -> tuple[Any, str]:
    """Runs a step of TVM's in silence; gives its result, or None and in one line what failed.

    What a failed pass leaves behind complains on stderr when it is freed, so it is freed here.
    Can go when TVM's half-built modules go quietly (0.27's do not).
    """
    result, reason = None, ""
    with silent_native_stderr():
        try:
            result = step()
        except Exception as error:
            reason = one_line(error)
        if reason:
            gc.collect()
    return result, reason


@contextlib.contextmanager
def importer_says() -> Iterator[io.StringIO]:
    """What TVM's ONNX importer prints meanwhile: the operator that failed is named nowhere else.

    Its warnings, of each name that it changes, are dropped. Can go when its exceptions name the
    operator (0.27's do not).
    """
    said = io.StringIO()
    with contextlib.redirect_stdout(said), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield said


def keep_narrow_matmuls(module: Any) -> Any:
    """Multiplies int8 (or uint8) matrices as they are, accumulating in int32.

    TVM's ONNX importer turns MatMulInteger into casts to int32 and a matmul of int32: four times
    the memory, and nothing that dot product instructions (sdot, vnni) could be used for. Can go
    when the importer emits `matmul(int8, int8, out_dtype="int32")` (0.27 does not).
    """
    import tvm
    from tvm import relax
    from tvm.relax.dpl import is_op, rewrite_call, wildcard

    left, right = wildcard(), wildcard()
    widened = is_op("relax.matmul")(is_op("relax.astype")(left), is_op("relax.astype")(right))

    def narrow(call: Any, matches: Any) -> Any:
        operands = matches[left], matches[right]
        dtypes = {str(operand.ty.dtype) for operand in operands}
        if str(call.ty.dtype) == "int32" and dtypes in ({"int8"}, {"uint8"}):
            return relax.op.matmul(*operands, out_dtype="int32")
        return call

    functions = {
        variable: rewrite_call(widened, narrow, function)
        if isinstance(function, relax.Function)
        else function
        for variable, function in module.functions.items()
    }
    return relax.transform.DeadCodeElimination()(tvm.IRModule(functions, attrs=module.attrs))


def normalized_module(function: Any) -> Any:
    """The module that MetaSchedule makes of a function before it hashes and tunes it.

    TVM has it as a private name only. Can go when it has a public one (0.27 has none).
    """
    from tvm.s_tir.meta_schedule.tune_context import _normalize_mod

    return _normalize_mod(function)


def database_base() -> Any:
    """The class that a database derives from which does something on leaving its `with`.

    `PyDatabase`, which is meant for that, hides an `__exit__` behind the object that
    `derived_object` makes, so this is the private class below it. Can go when a `PyDatabase` can
    have an `__exit__` (0.27's cannot).
    """
    from tvm.s_tir.meta_schedule.database.database import _PyDatabase

    return _PyDatabase


def size_of_any_database() -> int:
    """What a database says that it holds, whatever that is: never 0.

    TVM's pipelines ask `if Database.current()`, so they take an empty one for none and ask it
    nothing. Can go when they compare with None (0.27's `zero` does not).
    """
    return 1


@contextlib.contextmanager
def added_functions(listener: Callable[[str, str], None]) -> Iterator[None]:
    """Tells the listener of each function that Python adds to a module meanwhile: which name it
    got, and which was asked for.

    TVM numbers functions of one name, and hands out an equal function in place of a new one,
    whatever its name; nothing tells afterwards what was asked for. Can go when functions carry the
    operator that they were made for (0.27's do not).
    """
    _listen_to_added_functions()
    token = _added_function_listener.set(listener)
    try:
        yield
    finally:
        _added_function_listener.reset(token)


@functools.cache
def _listen_to_added_functions() -> None:
    from tvm import relax

    add_func = relax.BlockBuilder.add_func

    def add_and_tell(builder: Any, function: Any, name: str) -> Any:
        variable = add_func(builder, function, name)
        listener = _added_function_listener.get()
        if listener is not None:
            listener(variable.name_hint, name)
        return variable

    relax.BlockBuilder.add_func = add_and_tell


def size_thread_pool(threads: int) -> None:
    """Makes the runtime in this process use so many threads, on the fastest cores first: nothing
    else makes it use as many as the loops were sized for.

    It also binds the calling thread to one core, and whatever this process starts or counts later
    would know only that one; so that is undone. Can go when TVM binds none but its own threads
    (0.27 does not).
    """
    import tvm

    cores = os.sched_getaffinity(0)
    try:
        tvm.get_global_func("runtime.config_threadpool")(BIG_CORES, threads)
    finally:
        os.sched_setaffinity(0, cores)


def acknowledge_at_once(connection: socket.socket) -> None:
    """Acknowledges the next packet of a tracker without delay; holds for one answer.

    TVM's tracker writes an answer's length and its text apart, and the kernel keeps the second
    back until the first is acknowledged, which takes 40 ms. Can go when the tracker writes both at
    once or sets TCP_NODELAY (0.27 does neither).
    """
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
