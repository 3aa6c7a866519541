"""Redis is away, hangs, refuses, or comes back: nothing depends on it."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from local_ports import free_port
from redis_server import RedisServer, running_redis

from tunebook.cache.errors import UsageError
from tunebook.cache.live.live import Live
from tunebook.cache.live.live_counts import CONNECT, RATES
from tunebook.cache.live.news import News
from tunebook.cache.live.redis_client import shown_url

Eventually = Callable[..., None]
OpenLive = Callable[..., Live]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


def asks(live: Live) -> bool:
    """Whether Redis answers what a request would ask of it."""
    return live.rates.take("client", 1000, 1000, 1) is not None


@pytest.mark.parametrize(
    "url",
    [
        "http://:hidden@localhost:6379",
        "localhost:6379",
        "redis://",
        "redis://:hidden@localhost:port",
        "redis://:hid/den@localhost:6379",
        "redis://:hidden@localhost:6379/first",
        "redis://localhost:6379?password=hidden&colour=red",
        "redis://localhost:6379?db=first&password=hidden",
        "unix://",
    ],
)
def test_what_is_no_url_is_refused_without_telling_a_password(url: str) -> None:
    with pytest.raises(UsageError, match="give redis://") as refused:
        Live.open(url)
    assert "hid" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_no_part_of_a_password_is_shown_wherever_the_url_has_it() -> None:
    assert shown_url("redis://:hid@den@localhost:6379/1") == "redis://***@localhost:6379/1"
    assert shown_url("redis://localhost:6379/1?password=hidden") == "redis://localhost:6379/1"
    assert shown_url("redis://localhost:6379/1?password=hid@den") == "redis://***"
    assert shown_url("redis://:hid?d@n@localhost:6379/1") == "redis://***"


def test_where_the_driver_is_missing_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(UsageError, match=r"pip install 'tunebook\[redis\]'"):
        Live.open("redis://localhost")


def test_without_a_url_the_driver_is_not_loaded() -> None:
    program = (
        "import sys; from tunebook.cache.live.live import Live; "
        "Live.open(None).close(); assert 'redis' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_away_at_the_start_costs_one_warning_and_it_is_found_once_it_comes(
    redis_server: RedisServer, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    redis_server.kill()
    with Live.open(redis_server.url) as live:
        eventually(lambda: live.counts.failures.get(CONNECT, 0) >= 3, "it was tried again")
        assert not live.is_up
        assert not asks(live)
        (warning,) = warnings(caplog)
        assert "cannot be reached" in warning
        assert live.fault in warning
        redis_server.start()
        eventually(lambda: live.is_up, "it is there")
        assert asks(live)
        assert live.fault == ""


def test_killed_and_back_at_its_port_it_serves_again(
    redis_server: RedisServer,
    open_live: OpenLive,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    live = open_live()
    # More than once: it is never given up.
    for _ in range(2):
        assert asks(live)
        redis_server.kill()
        eventually(lambda: not live.is_up, "its end is noticed")
        assert not asks(live)
        redis_server.start()
        eventually(lambda: live.is_up, "its return is noticed")
    assert asks(live)
    assert len(warnings(caplog)) <= 2


@pytest.mark.usefixtures("impatience")
def test_while_it_hangs_one_question_waits_and_the_others_do_not(
    redis_server: RedisServer, open_live: OpenLive, eventually: Eventually
) -> None:
    live = open_live()
    eventually(lambda: asks(live), "it answers")
    before = live.counts.failures.get(RATES, 0)
    redis_server.pause()
    assert not any(asks(live) for _ in range(100))
    assert live.counts.failures.get(RATES, 0) <= before + 1
    redis_server.resume()
    eventually(lambda: asks(live), "it answers again")


@pytest.mark.usefixtures("impatience")
def test_that_it_hangs_is_noticed_while_nobody_asks(
    redis_server: RedisServer, open_live: OpenLive, eventually: Eventually
) -> None:
    live = open_live()
    redis_server.pause()
    eventually(lambda: not live.is_up, "its silence is noticed")
    assert "does not answer" in live.fault


@pytest.mark.usefixtures("impatience")
def test_one_that_hangs_holds_up_neither_the_start_nor_the_end(
    redis_server: RedisServer, eventually: Eventually
) -> None:
    redis_server.pause()
    before = set(threading.enumerate())
    with Live.open(redis_server.url) as live:
        live.tell(News(work=True))
        eventually(lambda: "does not answer" in live.fault, "its silence is noticed")
        began = set(threading.enumerate()) - before
        assert {one.name for one in began} >= {"redis-link", "redis-tell"}
    eventually(lambda: not began & set(threading.enumerate()), "its threads ended")


@pytest.fixture
def guarded_redis(redis_server: RedisServer) -> Iterator[RedisServer]:
    """One that wants a password."""
    with running_redis("s3cr/t:@ word") as server:
        yield server


def test_a_password_is_used(guarded_redis: RedisServer, eventually: Eventually) -> None:
    with Live.open(guarded_redis.url) as live:
        eventually(lambda: live.is_up, "it is there")
        assert asks(live)


@pytest.mark.parametrize("given", ["", ":wr0ng@"], ids=["none", "a wrong one"])
def test_where_the_password_is_wrong_one_line_says_so_and_not_which(
    guarded_redis: RedisServer,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
    given: str,
) -> None:
    url = f"redis://{given}127.0.0.1:{guarded_redis.port}"
    with Live.open(url) as live:
        eventually(lambda: live.counts.failures.get(CONNECT, 0) >= 3, "it was tried again")
        assert not asks(live)
    (warning,) = warnings(caplog)
    assert "password" in warning
    assert "wr0ng" not in caplog.text


def test_what_its_user_may_not_do_goes_on_without_it(
    redis_server: RedisServer, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    allowed = ("+ping", "+subscribe", "+client", "allchannels", "allkeys")
    redis_server.ask("ACL", "SETUSER", "little", "on", ">little", *allowed)
    with Live.open(f"redis://little:little@127.0.0.1:{redis_server.port}") as live:
        eventually(lambda: live.is_up, "it is there")
        assert not any(asks(live) for _ in range(3))
        assert live.is_up
        assert live.counts.failures[RATES] == 3
    (warning,) = warnings(caplog)
    assert "does not permit" in warning


def test_the_rights_that_the_documentation_names_are_enough(
    redis_server: RedisServer, eventually: Eventually
) -> None:
    text = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    command = text.partition("    ACL SETUSER tunebook ")[2].partition("\n\n")[0]
    redis_server.ask("ACL", "SETUSER", "tunebook", *command.split())
    url = f"redis://tunebook:PASSWORD@127.0.0.1:{redis_server.port}"
    with Live.open(url, "here", b"secret") as live, Live.open(url, "here") as other:
        eventually(lambda: live.is_up and other.is_up, "it is there")
        live.tell(News(work=True))
        assert other.bell.wait(60, threading.Event())
        eventually(lambda: (live.wakeups() or 0) >= 1, "it was counted")
        assert asks(live)
        for revision in (1, 2):
            live.answers.put(b"name", revision, b"answer")
            assert live.answers.get(b"name", revision) == b"answer"
        assert live.counts.failures == other.counts.failures == {}


@pytest.fixture
def tls(redis_server: RedisServer) -> tuple[str, Path]:
    """Where the server speaks TLS, and the certificate that nobody else trusts."""
    certificate, key = redis_server.folder / "cert.pem", redis_server.folder / "key.pem"
    made = subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        capture_output=True,
    )
    if made.returncode:
        pytest.skip("openssl makes no certificate here")
    key.chmod(0o644)
    port = free_port()
    settings = {"cert-file": certificate, "key-file": key, "auth-clients": "no", "port": port}
    words = [word for name, value in settings.items() for word in (f"tls-{name}", str(value))]
    redis_server.ask("CONFIG", "SET", *words)
    return f"rediss://127.0.0.1:{port}", certificate


def test_tls_is_spoken_and_the_certificate_checked(
    tls: tuple[str, Path], eventually: Eventually
) -> None:
    url, certificate = tls
    with Live.open(f"{url}?ssl_ca_certs={certificate}") as live:
        eventually(lambda: live.is_up, "it is there")
        assert asks(live)
    with Live.open(url) as live:
        eventually(lambda: "certificate" in live.fault, "it is not trusted")
        assert not asks(live)
