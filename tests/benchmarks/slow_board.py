"""A board on another machine, as far as time goes: this board agent, but every module it loads
takes 0.2 seconds longer. Arguments are the agent's own.

It runs the kernels on this machine, so what the tuner does meanwhile does not slow the answer.
"""

from __future__ import annotations

import time
from typing import Any

import tvm_ffi
from tvm.rpc import server

from tunebook.workers import board_agent

ANSWER_SECONDS = 0.2

_server_env = server._server_env


def _slow_server_env(*arguments: Any, **options: Any) -> Any:
    environment = _server_env(*arguments, **options)
    load_module = tvm_ffi.get_global_func("tvm.rpc.server.load_module")

    def slow_load_module(name: str) -> Any:
        time.sleep(ANSWER_SECONDS)
        return load_module(name)

    tvm_ffi.register_global_func("tvm.rpc.server.load_module", slow_load_module, override=True)
    return environment


if __name__ == "__main__":
    server._server_env = _slow_server_env
    board_agent.main()
