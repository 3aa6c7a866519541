"""The compiler as keys and manifests spell it."""

from __future__ import annotations

from importlib import metadata

from tvm.target.codegen import llvm_version_major

from tunebook.tuner.compiler import compiler_text, compiler_versions


def test_a_post_release_is_the_same_compiler() -> None:
    assert metadata.version("apache-tvm") == "0.27.0.post1"
    assert compiler_text() == f"tvm-0.27.0+llvm-{llvm_version_major()}"


def test_a_manifest_gets_the_exact_versions() -> None:
    versions = compiler_versions()
    assert versions.tvm == metadata.version("apache-tvm")
    assert versions.tvm_ffi == metadata.version("apache-tvm-ffi")
    assert versions.llvm == str(llvm_version_major())
