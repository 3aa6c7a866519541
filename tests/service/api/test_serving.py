"""The real `tunebook serve`: starting, listening, its local token, and stopping."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tunebook.cache.errors import ExitCode
from tunebook.cache.store import Store
from tunebook.cache.submissions import BudgetLimits, JobRequest
from tunebook.cache.tokens import Role

Serve = Callable[..., "Served"]
WITHOUT_WORKERS = ("--workers", "0")


class Served:
    """A coordinator that runs as a process of its own, at a free port, for a user of its own."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        self.database = home / "tunebook.db"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tunebook.service.cli", "serve", *options],
            env={**os.environ, "HOME": str(home), "TUNEBOOK_DATABASE_URL": str(self.database)}
            | {"XDG_DATA_HOME": str(home / "data"), "XDG_CACHE_HOME": str(home / "cache")},
            stdout=subprocess.PIPE,
            stderr=(home / "log").open("wb"),
            text=True,
        )

    def url(self) -> str:
        """Where it is, once it says so."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("Tunebook is at "), self.log()
        return line.split()[-1]

    def log(self) -> str:
        return (self.home / "log").read_text()

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(timeout=30)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    started: list[Served] = []

    def start(*options: str) -> Served:
        started.append(Served(tmp_path, *(options or ("--port", "0", *WITHOUT_WORKERS))))
        return started[-1]

    yield start
    for served in started:
        served.process.kill()
        served.process.wait()
        assert served.process.stdout is not None
        served.process.stdout.close()


def token_file(home: Path, url: str) -> Path:
    return home / "data" / "tunebook" / "local-tokens" / f"{url.rpartition(':')[2]}.token"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT], ids=lambda how: how.name)
def test_a_stop_ends_it_cleanly_while_clients_are_connected(
    serve: Serve, how: signal.Signals
) -> None:
    served = serve()
    url = served.url()
    with httpx.Client(base_url=url) as client:
        assert client.get("/healthz").status_code == 200
        assert served.end(how) == ExitCode.OK
    assert "Traceback" not in served.log()
    assert '"level": "error"' not in served.log()


def test_a_stop_ends_streams_of_events(serve: Serve) -> None:
    served = serve()
    url = served.url()
    with Store.open(str(served.database)) as store:
        job = submitted_job(store)
        secret = store.tokens.create("reader", Role.READ).secret
    headers = {"Authorization": f"Bearer {secret}"}
    with httpx.stream("GET", f"{url}/api/v1/jobs/{job}/events", headers=headers) as stream:
        assert stream.status_code == 200
        lines = stream.iter_lines()
        assert next(lines)
        assert served.end() == ExitCode.OK
        # The stream ends as one that is whole, and is not broken off.
        assert list(lines) is not None
    assert "Traceback" not in served.log()
    assert "graceful" not in served.log()


def submitted_job(store: Store) -> int:
    """A job that nobody works on."""
    target = "llvm -mtriple=x86_64-linux-gnu -num-cores=1"
    request = JobRequest(digest="0" * 64, shapes="", target=target, board_class="local")
    return store.queue.submit(request, BudgetLimits(trials=8)).job_id


def test_commands_of_the_same_user_find_a_token_that_nobody_else_can_read(serve: Serve) -> None:
    served = serve()
    url = served.url()
    file = token_file(served.home, url)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    headers = {"Authorization": f"Bearer {file.read_text().strip()}"}
    assert httpx.get(f"{url}/metrics", headers=headers).status_code == 200
    assert httpx.get(f"{url}/metrics").status_code == 401


def test_a_restart_keeps_a_good_local_token_and_replaces_a_revoked_one(serve: Serve) -> None:
    served = serve()
    url = served.url()
    port = url.rpartition(":")[2]
    first = token_file(served.home, url).read_text()
    served.end()
    again = serve("--port", port, *WITHOUT_WORKERS)
    again.url()
    assert token_file(served.home, url).read_text() == first
    with Store.open(str(served.database)) as store:
        (token,) = store.tokens.list()
        store.tokens.revoke(token.id)
    again.end()
    serve("--port", port, *WITHOUT_WORKERS).url()
    assert token_file(served.home, url).read_text() != first


def test_a_running_coordinator_has_loaded_no_tvm(serve: Serve) -> None:
    """Its libraries would be among what the process has mapped."""
    served = serve()
    url = served.url()
    headers = {"Authorization": f"Bearer {token_file(served.home, url).read_text().strip()}"}
    target = "llvm -mtriple=x86_64-linux-gnu -num-cores=1"
    asked = {"target": target, "compiler": "tvm", "workloads": []}
    httpx.post(f"{url}/api/v1/lookups", json=asked, headers=headers)
    httpx.get(f"{url}/", headers=headers)
    mapped = {Path(one.path).name for one in psutil.Process(served.process.pid).memory_maps()}
    assert any("_sqlite3" in name or "pydantic_core" in name for name in mapped)
    assert {
        name for name in mapped if "tvm" in name or "onnx" in name or "xgboost" in name
    } == set()


def test_its_log_is_json_line_by_line(serve: Serve) -> None:
    served = serve()
    url = served.url()
    httpx.post(f"{url}/api/v1/jobs", json={})
    served.end()
    lines = [json.loads(line) for line in served.log().splitlines()]
    (refused,) = [line for line in lines if line["message"] == "POST /api/v1/jobs"]
    assert refused["status"] == 401
    assert refused["client"] == "127.0.0.1"
    assert {"time", "level", "logger"} <= set(refused)


# --- what it refuses -------------------------------------------------------------------------
def refusal(served: Served) -> tuple[int, str]:
    """The exit code, and the one line that says why."""
    code = served.process.wait(timeout=60)
    log = served.log()
    assert log.startswith("error: ")
    assert log.count("\n") == 1
    return code, log


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--host", "0.0.0.0"], ExitCode.USAGE, "--behind-proxy"),
        (["--host", "::"], ExitCode.USAGE, "--behind-proxy"),
        (["--tls-cert", "nowhere.pem"], ExitCode.USAGE, "--tls-key"),
        (["--tls-cert", "nowhere.pem", "--tls-key", "no.key"], ExitCode.SERVER, "nowhere.pem"),
        (["--tls-cert", __file__, "--tls-key", __file__], ExitCode.SERVER, "PEM"),
        (["--host", "no.such.host.invalid", "--behind-proxy"], ExitCode.SERVER, "--host"),
        (["--host", "192.0.2.1", "--behind-proxy"], ExitCode.SERVER, "192.0.2.1"),
        (["--models", "nosuch://bucket"], ExitCode.USAGE, "nosuch"),
        (["--workers", "-1"], ExitCode.USAGE, "--workers"),
        (["--port", "65536"], ExitCode.USAGE, "--port"),
        (["--db", "mysql://x/y"], ExitCode.DATABASE, "mysql"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else None,
)
def test_what_it_cannot_do_it_refuses_in_one_line(
    serve: Serve, options: list[str], code: ExitCode, said: str
) -> None:
    got, line = refusal(serve("--port", "0", *WITHOUT_WORKERS, *options))
    assert got == code
    assert said in line


def test_a_port_in_use_is_named(serve: Serve) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, line = refusal(serve("--port", port, *WITHOUT_WORKERS))
    assert code == ExitCode.SERVER
    assert port in line
    assert "in use" in line


def test_behind_a_proxy_it_listens_to_all_and_answers_to_its_names(serve: Serve) -> None:
    served = serve(
        *("--host", "0.0.0.0", "--port", "0", "--behind-proxy", "--name", "tunebook.lab"),
        *WITHOUT_WORKERS,
    )
    port = served.url().rpartition(":")[2]
    for host, status in (("tunebook.lab", 200), ("evil.example", 421)):
        answer = httpx.get(f"http://127.0.0.1:{port}/healthz", headers={"Host": host})
        assert answer.status_code == status


def test_it_speaks_tls_with_a_certificate(serve: Serve, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        capture_output=True,
    )
    if made.returncode:
        pytest.skip("openssl makes no certificate here")
    served = serve(
        *("--port", "0", "--tls-cert", str(certificate), "--tls-key", str(key)), *WITHOUT_WORKERS
    )
    url = served.url()
    assert url.startswith("https://")
    with httpx.Client(verify=ssl.create_default_context(cafile=str(certificate))) as client:
        assert client.get(f"{url}/healthz").status_code == 200
        assert served.end() == ExitCode.OK
