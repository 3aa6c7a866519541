"""What tests of deploy/ share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Tests are imported without a package (--import-mode=importlib): modules beside them, and samples.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "cache")]
pytest.register_assert_rewrite("deployed_fleet")

from deploy_services import SERVICES  # noqa: E402
from deployed_fleet import free_port  # noqa: E402


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
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
    yield f"redis://:{service['environment']['REDISCLI_AUTH']}@127.0.0.1:{port}/0"
    server.terminate()
    assert server.wait(timeout=60) == 0
