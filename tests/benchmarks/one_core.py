"""Keeps a board server's kernels on the core that it was started on."""

from __future__ import annotations

import os
from typing import Any

import tvm_ffi
from tvm.rpc import server


def keep_to_one_core() -> None:
    """TVM would move them to the fastest, which is the tuner's in the benchmarks."""
    server_env = server._server_env

    def server_env_here(*arguments: Any, **options: Any) -> Any:
        environment = server_env(*arguments, **options)
        size_thread_pool = tvm_ffi.get_global_func("runtime.config_threadpool")

        def size_thread_pool_here(mode: int, threads: int) -> None:
            cores = os.sched_getaffinity(0)
            size_thread_pool(mode, threads)
            os.sched_setaffinity(0, cores)

        tvm_ffi.register_global_func(
            "runtime.config_threadpool", size_thread_pool_here, override=True
        )
        return environment

    server._server_env = server_env_here
