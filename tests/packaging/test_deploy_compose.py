"""deploy/compose.yaml keeps to the specification, to itself, and to what a fleet must not do."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deploy_files import COMPOSE, DEPLOY, DOCKERFILES, MissingVariableError, compose

EXAMPLE = (DEPLOY / "fleet.env.example").read_text()
# Those that have to be filled in, and what else may be said.
REQUIRED = re.findall(r"^(\w+)=$", EXAMPLE, re.MULTILINE)
OPTIONAL = re.findall(r"^# (\w+)=(.+)$", EXAMPLE, re.MULTILINE)
FILLED = {name: f"value{number}" for number, name in enumerate(REQUIRED)}
FLEET = compose(FILLED)
SERVICES: dict[str, dict[str, Any]] = FLEET["services"]
(CREDENTIALS,) = re.findall(
    r"credentials_file: (\S+) \}", (DEPLOY / "prometheus" / "prometheus.yml").read_text()
)
# What ends, and what goes on until it is stopped.
ONE_SHOT = {"schema", "prometheus-token", "worker-token"}
BY_HAND = {"backup", "restore"}
LASTING = set(SERVICES) - ONE_SHOT - BY_HAND


def test_it_keeps_to_the_published_schema_of_the_specification() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*check, COMPOSE], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_compose_itself_reads_it(tmp_path: Path) -> None:
    """Needs no daemon, but Docker's compose plugin."""
    plugin = ["docker", "compose"]
    if (
        shutil.which("docker") is None
        or subprocess.run([*plugin, "version"], capture_output=True).returncode != 0
    ):
        pytest.skip("no `docker compose` is installed: only the schema was checked")
    filled = tmp_path / "filled.env"
    filled.write_text("".join(f"{name}={value}\n" for name, value in FILLED.items()))
    command = [*plugin, "--file", COMPOSE, "--env-file", filled, "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", REQUIRED)
def test_nothing_starts_before_the_example_is_filled_in(name: str) -> None:
    with pytest.raises(MissingVariableError, match=name):
        compose({**FILLED, name: ""})


def test_every_variable_is_in_the_example() -> None:
    used = set(re.findall(r"\$\{(\w+)", COMPOSE.read_text()))
    assert used == {*REQUIRED, *(name for name, _ in OPTIONAL)}


def test_no_secret_has_a_value_of_its_own() -> None:
    told = re.findall(
        r"^ +(\w*(?:PASSWORD|AUTH|TOKEN|SECRET)\w*): *\"?([^\"\n]*)",
        COMPOSE.read_text(),
        re.MULTILINE,
    )
    assert told
    for name, value in told:
        # Whether anybody may sign in is none.
        assert value.startswith(("${", "/tokens/", "false")), name


@pytest.mark.parametrize("name", SERVICES)
def test_no_command_line_shows_a_password(name: str) -> None:
    words = [*SERVICES[name].get("entrypoint", []), *SERVICES[name].get("command", [])]
    secrets = [FILLED[one] for one in REQUIRED if one.endswith("PASSWORD")]
    assert not any(secret in word for word in words for secret in secrets)


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_published_on_loopback_unless_told_otherwise(name: str) -> None:
    for port in SERVICES[name].get("ports", []):
        assert port.startswith("127.0.0.1:")


def test_database_and_redis_are_reached_by_nobody_outside() -> None:
    assert FLEET["networks"]["data"]["internal"] is True
    for name in ("postgresql", "redis"):
        assert SERVICES[name]["networks"] == ["data"]
        assert "ports" not in SERVICES[name]


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_limits_and_a_restart_policy(name: str) -> None:
    service = SERVICES[name]
    assert service["deploy"]["resources"]["limits"]["memory"]
    expected = {"on-failure:3"} if name in ONE_SHOT else {"unless-stopped"}
    assert service.get("restart") in ({None} if name in BY_HAND else expected)


@pytest.mark.parametrize("name", sorted(LASTING))
def test_every_lasting_service_says_whether_it_is_healthy(name: str) -> None:
    if "build" in SERVICES[name]:
        image = (COMPOSE.parent / SERVICES[name]["build"]["context"]).resolve()
        dockerfile = (image / SERVICES[name]["build"]["dockerfile"]).read_text()
        assert "HEALTHCHECK" in dockerfile
    else:
        assert SERVICES[name]["healthcheck"]["test"]


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_waits_for_can_become_so(name: str) -> None:
    conditions = {
        other: needed["condition"] for other, needed in SERVICES[name].get("depends_on", {}).items()
    }
    assert set(conditions) <= set(SERVICES)
    for other, condition in conditions.items():
        assert (condition == "service_completed_successfully") == (other in ONE_SHOT)


@pytest.mark.parametrize("name", ["coordinator", "worker"])
def test_nothing_opens_the_database_before_its_schema_is_this_versions(name: str) -> None:
    assert SERVICES["schema"]["command"] == ["db", "upgrade"]
    assert SERVICES[name]["depends_on"]["schema"]["condition"] == "service_completed_successfully"


@pytest.mark.parametrize("name", SERVICES)
def test_volumes_networks_and_files_are_there(name: str) -> None:
    service = SERVICES[name]
    assert set(service.get("networks", [])) <= set(FLEET["networks"])
    for volume in service.get("volumes", []):
        source = volume.split(":")[0]
        if source.startswith("."):
            assert (DEPLOY / source).exists()
        else:
            assert source in FLEET["volumes"]
    if "build" in service:
        context = (DEPLOY / service["build"]["context"]).resolve()
        assert context / service["build"]["dockerfile"] in DOCKERFILES


@pytest.mark.parametrize(
    ("made_by", "reader", "read_as"),
    [
        ("worker-token", "worker", SERVICES["worker"]["environment"]["TUNEBOOK_TOKEN_FILE"]),
        ("prometheus-token", "prometheus", CREDENTIALS),
    ],
)
def test_a_token_is_read_where_it_is_made(made_by: str, reader: str, read_as: str) -> None:
    """In one volume, which nobody else has."""
    written = Path(SERVICES[made_by]["command"][-1])
    (volume,) = (one.split(":") for one in SERVICES[made_by]["volumes"])
    (mounted,) = (
        one.split(":")[1] for one in SERVICES[reader]["volumes"] if one.startswith(f"{volume[0]}:")
    )
    assert written.relative_to(volume[1]) == Path(read_as).relative_to(mounted)
    others = {name for name in SERVICES if volume[0] in str(SERVICES[name].get("volumes"))}
    assert others == {made_by, reader}


@pytest.mark.parametrize("name", [name for name in SERVICES if "build" in SERVICES[name]])
def test_our_own_containers_may_do_their_work_and_nothing_beside(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]


@pytest.mark.parametrize("name", [name for name in SERVICES if "build" not in SERVICES[name]])
def test_images_of_others_are_pinned_by_a_tag(name: str) -> None:
    assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+[\w.-]*", SERVICES[name]["image"])
