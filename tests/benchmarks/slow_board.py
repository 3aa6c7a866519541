"""A board on another machine, as far as time goes: this board server, but every module it loads
takes 0.2 seconds longer. Arguments are the server's own.

It runs the kernels on this machine, on the core that it was started on.
"""

from __future__ import annotations

import time
from typing import Any

import tvm_ffi
from one_core import keep_to_one_core
from tvm.rpc import server

from tunebook.workers.boards import board_server

ANSWER_SECONDS = 0.2


def load_slowly() -> None:
    server_env = server._server_env

    def slow_server_env(*arguments: Any, **options: Any) -> Any:
        environment = server_env(*arguments, **options)
        load_module = tvm_ffi.get_global_func("tvm.rpc.server.load_module")

        def slow_load_module(name: str) -> Any:
            time.sleep(ANSWER_SECONDS)
            return load_module(name)

        tvm_ffi.register_global_func("tvm.rpc.server.load_module", slow_load_module, override=True)
        return environment

    server._server_env = slow_server_env


if __name__ == "__main__":
    keep_to_one_core()
    load_slowly()
    board_server.main()
