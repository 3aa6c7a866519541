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
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import psutil
import pytest

from tunebook.cache.access.tokens import Role
from tunebook.cache.errors import ExitCode, UnreachableError
from tunebook.cache.queue.submissions import BudgetLimits, JobRequest
from tunebook.cache.remote import server_requests
from tunebook.cache.remote.client import Client
from tunebook.cache.remote.retries import Retries
from tunebook.cache.store import Store
from tunebook.service.cli import run

Serve = Callable[..., "Served"]
Eventually = Callable[[Callable[[], bool], str], None]
WITHOUT_WORKERS = ("--workers", "0")
PATIENCE = 60
COMMAND = ("-m", "tunebook.service.cli")
# The same, but what a pause of some seconds holds up is not cut off when it stops.
PATIENT_COMMAND = f"""
from tunebook.service.api import server
from tunebook.service.cli import main

server._STOP_SECONDS = {PATIENCE}
main()
"""
TARGET = "llvm -mtriple=x86_64-linux-gnu -num-cores=1"


class Served:
    """A coordinator that runs as a process of its own, at a free port, for a user of its own."""

    def __init__(self, home: Path, *options: str, patient: bool = False) -> None:
        self.database = home / "tunebook.db"
        self._home = home
        self._log = (home / "log").open("wb")
        command = ("-c", PATIENT_COMMAND) if patient else COMMAND
        self.process = subprocess.Popen(
            [
                *(sys.executable, *command, "serve", "--port", "0"),
                *("--db", str(self.database), *WITHOUT_WORKERS, *options),
            ],
            env={**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home / "data")},
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("Tunebook is at "), self.log()
        self.url = line.split()[-1]
        self.port = self.url.rpartition(":")[2]

    def log(self) -> str:
        return (self._home / "log").read_text()

    def token_file(self) -> Path:
        return self._home / "data" / "tunebook" / "local-tokens" / f"{self.port}.token"

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(timeout=PATIENCE)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self._log.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    with ExitStack() as ends:

        def start(*options: str, patient: bool = False) -> Served:
            return ends.enter_context(closing(Served(tmp_path, *options, patient=patient)))

        yield start


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One that several tests ask."""
    with closing(Served(tmp_path_factory.mktemp("running"))) as served:
        yield served


def test_ctrl_c_ends_it_cleanly_while_a_client_is_connected(serve: Serve) -> None:
    served = serve(patient=True)
    with httpx.Client(base_url=served.url, timeout=PATIENCE) as client:
        assert client.get("/healthz").status_code == 200
        assert served.end(signal.SIGINT) == ExitCode.OK
    assert "Traceback" not in served.log()
    assert '"level": "error"' not in served.log()


def test_a_service_managers_stop_ends_streams_of_events_as_whole_ones(serve: Serve) -> None:
    served = serve(patient=True)
    url = served.url
    with Store.open(str(served.database)) as store:
        job = submitted_job(store)
        secret = store.tokens.create("reader", Role.READ).secret
    headers = {"Authorization": f"Bearer {secret}"}
    address = f"{url}/api/v1/jobs/{job}/events"
    with httpx.stream("GET", address, headers=headers, timeout=PATIENCE) as stream:
        assert stream.status_code == 200
        lines = stream.iter_lines()
        assert next(lines)
        assert served.end() == ExitCode.OK
        # A stream that is broken off raises here.
        for _ in lines:
            pass
    assert "Traceback" not in served.log()
    assert '"level": "error"' not in served.log()


def test_a_stream_ends_when_its_token_is_revoked(running: Served) -> None:
    with Store.open(str(running.database)) as store:
        job = submitted_job(store)
        made = store.tokens.create("reader", Role.READ)
        headers = {"Authorization": f"Bearer {made.secret}"}
        address = f"{running.url}/api/v1/jobs/{job}/events"
        with httpx.stream("GET", address, headers=headers, timeout=PATIENCE) as stream:
            lines = stream.iter_lines()
            assert next(lines)
            store.tokens.revoke(made.token.id)
            store.queue.cancel(job)
            rest = list(lines)
    assert "cancelled" not in "".join(rest)
    assert '"level": "error"' not in running.log()


def test_the_command_that_it_names_makes_a_token_that_it_knows(serve: Serve) -> None:
    served = serve()
    assert served.process.stdout is not None
    command = served.process.stdout.readline().partition(": ")[2].split()
    assert command[:4] == ["tunebook", "token", "create", "NAME"]
    made = subprocess.run(
        [sys.executable, "-m", "tunebook.service.cli", *command[1:]],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
    listed = httpx.get(f"{served.url}/api/v1/jobs", headers=headers, timeout=PATIENCE)
    assert listed.status_code == 200


def submitted_job(store: Store) -> int:
    """A job that nobody works on."""
    request = JobRequest(digest="0" * 64, shapes="", target=TARGET, board_class="local")
    return store.queue.submit(request, BudgetLimits(trials=8)).job_id


# --- while it runs ---------------------------------------------------------------------------
def test_commands_of_the_same_user_find_a_token_that_nobody_else_can_read(running: Served) -> None:
    file = running.token_file()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    headers = {"Authorization": f"Bearer {file.read_text().strip()}"}
    address = f"{running.url}/metrics"
    assert httpx.get(address, headers=headers, timeout=PATIENCE).status_code == 200
    assert httpx.get(address, timeout=PATIENCE).status_code == 401


def test_it_has_loaded_no_tvm(running: Served) -> None:
    """Its libraries would be among what the process has mapped."""
    headers = {"Authorization": f"Bearer {running.token_file().read_text().strip()}"}
    asked = {"target": TARGET, "compiler": "tvm", "workloads": []}
    address = f"{running.url}/api/v1/lookups"
    httpx.post(address, json=asked, headers=headers, timeout=PATIENCE)
    httpx.get(f"{running.url}/", headers=headers, timeout=PATIENCE)
    mapped = {Path(one.path).name for one in psutil.Process(running.process.pid).memory_maps()}
    assert any("pydantic_core" in name for name in mapped)
    assert {
        name for name in mapped if "tvm" in name or "onnx" in name or "xgboost" in name
    } == set()


def logged(served: Served, message: str, eventually: Eventually) -> dict[str, object]:
    """The line about a request, which may come a little later than its answer."""

    def lines() -> list[dict[str, object]]:
        # The last one may not be whole yet.
        whole = served.log().rpartition("\n")[0]
        told = [json.loads(line) for line in whole.splitlines()]
        return [line for line in told if line["message"] == message]

    eventually(lambda: bool(lines()), f"a line about {message}")
    (line,) = lines()
    return line


def test_its_log_is_json_line_by_line(running: Served, eventually: Eventually) -> None:
    httpx.post(f"{running.url}/api/v1/jobs", json={}, timeout=PATIENCE)
    line = logged(running, "POST /api/v1/jobs", eventually)
    assert (line["status"], line["client"]) == (401, "127.0.0.1")
    assert {"time", "level", "logger"} <= set(line)


def test_without_a_proxy_nobody_is_believed_to_ask_for_another(
    running: Served, eventually: Eventually
) -> None:
    headers = {"X-Forwarded-For": "203.0.113.9"}
    httpx.post(f"{running.url}/api/v1/budgets", json={}, headers=headers, timeout=PATIENCE)
    assert logged(running, "POST /api/v1/budgets", eventually)["client"] == "127.0.0.1"


# --- what it refuses -------------------------------------------------------------------------
def refusal(capfd: pytest.CaptureFixture[str], tmp_path: Path, *options: str) -> tuple[int, str]:
    """The exit code, and the one line that says why."""
    code = run(["serve", "--db", str(tmp_path / "tunebook.db"), *WITHOUT_WORKERS, *options])
    said = capfd.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    return code, said


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--host", "0.0.0.0"], ExitCode.USAGE, "--behind-proxy"),
        (["--host", "::"], ExitCode.USAGE, "--behind-proxy"),
        (["--host", "tunebook.lab"], ExitCode.USAGE, "--behind-proxy"),
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
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    options: list[str],
    code: ExitCode,
    said: str,
) -> None:
    got, line = refusal(capfd, tmp_path, "--port", "0", *options)
    assert got == code
    assert said in line


def test_a_port_in_use_is_named(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, line = refusal(capfd, tmp_path, "--port", port)
    assert code == ExitCode.SERVER
    assert port in line
    assert "in use" in line


def test_behind_a_proxy_it_answers_to_its_names_and_knows_who_asks(serve: Serve) -> None:
    served = serve("--host", "0.0.0.0", "--behind-proxy", "--name", "tunebook.lab", patient=True)
    at = f"http://127.0.0.1:{served.port}"
    for host, status in (("tunebook.lab", 200), ("evil.example", 421)):
        answer = httpx.get(f"{at}/healthz", headers={"Host": host}, timeout=PATIENCE)
        assert answer.status_code == status
    asked_for = {"Host": "tunebook.lab", "X-Forwarded-For": "203.0.113.9"}
    httpx.post(f"{at}/api/v1/jobs", json={}, headers=asked_for, timeout=PATIENCE)
    served.end()
    assert '"client": "203.0.113.9"' in served.log()


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate of this machine that no authority signed, and its key."""
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
    return certificate, key


def test_it_speaks_tls_with_a_certificate(serve: Serve, certificate: tuple[Path, Path]) -> None:
    served = serve("--tls-cert", str(certificate[0]), "--tls-key", str(certificate[1]))
    url = served.url
    assert url.startswith("https://")
    trusted = ssl.create_default_context(cafile=str(certificate[0]))
    with httpx.Client(verify=trusted, timeout=PATIENCE) as client:
        assert client.get(f"{url}/healthz").status_code == 200
        assert served.end() == ExitCode.OK


def test_clients_trust_the_authority_that_the_environment_names(
    serve: Serve, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve("--tls-cert", str(certificate[0]), "--tls-key", str(certificate[1]))
    token = served.token_file().read_text().strip()
    monkeypatch.setattr(server_requests, "_TIMEOUT", httpx.Timeout(PATIENCE))
    once = Retries(patience=0)
    with (
        Client(served.url, token, retries=once) as client,
        pytest.raises(UnreachableError, match="SSL_CERT_FILE"),
    ):
        client.request("GET", "/jobs")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    with Client(served.url, token, retries=once) as client:
        assert client.request("GET", "/jobs")["items"] == []
