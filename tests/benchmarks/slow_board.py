"""A board on another machine, as far as time goes: this board server, but every module it loads
takes 0.2 seconds longer. Arguments are the server's own.

It runs the kernels on this machine, on the core that it was started on: TVM would move them to
the fastest, which is the tuner's here.
"""

from __future__ import annotations

import os
import time
from typing import Any

import tvm_ffi
from tvm.rpc import server

from tunebook.workers.boards import board_server

ANSWER_SECONDS = 0.2

_server_env = server._server_env


def _slow_server_env(*arguments: Any, **options: Any) -> Any:
    environment = _server_env(*arguments, **options)
    load_module = tvm_ffi.get_global_func("tvm.rpc.server.load_module")

    def slow_load_module(name: str) -> Any:
        time.sleep(ANSWER_SECONDS)
        return load_module(name)

    size_thread_pool = tvm_ffi.get_global_func("runtime.config_threadpool")

    def size_thread_pool_here(mode: int, threads: int) -> None:
        cores = os.sched_getaffinity(0)
        size_thread_pool(mode, threads)
        os.sched_setaffinity(0, cores)

    tvm_ffi.register_global_func("tvm.rpc.server.load_module", slow_load_module, override=True)
    tvm_ffi.register_global_func("runtime.config_threadpool", size_thread_pool_here, override=True)
    return environment


if __name__ == "__main__":
    server._server_env = _slow_server_env
    board_server.main()
