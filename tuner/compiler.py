"""Which compiler this is: the part of a key that says who can replay a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import metadata

from tvm.target.codegen import llvm_version_major


@dataclass(frozen=True)
class CompilerVersions:
    """The versions behind the compiler text, as a build's manifest states them."""

    tvm: str  # with its post release, as installed
    tvm_ffi: str
    llvm: str


@cache
def compiler_versions() -> CompilerVersions:
    """The installed TVM, its FFI, and the LLVM that TVM was linked with."""
    return CompilerVersions(
        tvm=metadata.version("apache-tvm"),
        tvm_ffi=metadata.version("apache-tvm-ffi"),
        llvm=str(llvm_version_major()),
    )


def compiler_text() -> str:
    """The compiler as keys spell it: `tvm-0.27.0+llvm-22`.

    A post release repackages the same sources, so it is left out.
    """
    versions = compiler_versions()
    release = versions.tvm.partition(".post")[0]
    return f"tvm-{release}+llvm-{versions.llvm}"
