"""A redis-server of the tests, on a port that stays its own when it is started again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from local_ports import free_port
from server_process import PATIENCE, ServerProcess, unprivileged_user


def redis_binary() -> str | None:
    """The server's program; None where none is installed."""
    return shutil.which("redis-server") or shutil.which("valkey-server")


class RedisServer(ServerProcess):
    """A redis-server that keeps nothing on disk, at `url`."""

    def __init__(self, password: str | None = None) -> None:
        super().__init__("redis", unprivileged_user("redis"))
        self.port = free_port()
        self._password = password
        user = "" if password is None else f":{quote(password, safe='')}@"
        self.url = f"redis://{user}127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Starts it, with nothing in it, and waits until it answers."""
        binary = redis_binary()
        assert binary is not None
        settings: dict[str, object] = {
            "port": self.port,
            "bind": "127.0.0.1",
            "save": "",
            "appendonly": "no",
        }
        if self._password is not None:
            settings["requirepass"] = self._password
        words = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
        self.launch([binary, *words], lambda: self.ask("PING"))

    def ask(self, *words: Any) -> Any:
        """Carries out one command, on a connection of its own."""
        import redis

        with redis.Redis.from_url(self.url, socket_timeout=PATIENCE) as client:
            return client.execute_command(*words)


@contextmanager
def running_redis(password: str | None = None) -> Iterator[RedisServer]:
    """A server that runs, and leaves nothing."""
    server = RedisServer(password)
    try:
        server.start()
        yield server
    finally:
        server.remove()
