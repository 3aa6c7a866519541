"""What tests of deploy/ share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# Tests are imported without a package (--import-mode=importlib): modules beside them, and samples.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "cache")]
pytest.register_assert_rewrite("deployed_fleet")

from deploy_services import SERVICES  # noqa: E402
from local_ports import free_port  # noqa: E402


@pytest.fixture(scope="module")
def redis_url(eventually: Callable[..., None]) -> Iterator[str]:
    """Redis as compose.yaml starts it, but for its port."""
    if shutil.which("redis-server") is None:
        pytest.skip("no Redis is installed (no redis-server in PATH)")
    service, port = SERVICES["redis"], free_port()
    command = [
        word.replace('save ""', f'port {port}\nbind 127.0.0.1\nsave ""')
        for word in service["command"]
    ]
    environment = {**os.environ, **service["environment"]}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    url = f"redis://:{service['environment']['REDISCLI_AUTH']}@127.0.0.1:{port}/0"
    try:
        eventually(lambda: _answers(url), "Redis answers")
        yield url
    finally:
        server.terminate()
        code = server.wait(timeout=60)
    assert code == 0


def _answers(url: str) -> bool:
    import redis

    try:
        with redis.Redis.from_url(url, socket_timeout=60) as client:
            return bool(client.ping())
    except redis.ConnectionError:
        return False
