"""The Dockerfiles: pinned, in stages, for a user without rights, and with all that they copy."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from deploy_files import DEPLOY, DOCKERFILES, Dockerfile

ROOT = DEPLOY.parent
EXTRAS = {
    "coordinator": {"serve", "postgresql", "redis"},
    "worker": {"tune", "postgresql", "redis"},
    "board": {"board"},
}


@pytest.fixture(params=DOCKERFILES, ids=lambda path: path.name.partition(".")[0])
def dockerfile(request: pytest.FixtureRequest) -> Dockerfile:
    return Dockerfile.read(request.param)


def image_of(dockerfile: Dockerfile) -> str:
    return dockerfile.path.name.partition(".")[0]


def test_the_base_is_pinned_by_a_tag(dockerfile: Dockerfile) -> None:
    (base,) = dockerfile.all("ARG")
    assert re.fullmatch(r"PYTHON=python:3\.1[0-2]\.\d+-slim-bookworm", base)
    assert {words.split()[0] for words in dockerfile.all("FROM")} == {"${PYTHON}"}


def test_what_builds_is_not_in_the_image(dockerfile: Dockerfile) -> None:
    assert len(dockerfile.all("FROM")) == 3
    image = dockerfile.last_stage()
    assert not any("pip " in words for words in image.all("RUN"))
    copied = [words for words in image.all("COPY") if not words.startswith("--chmod")]
    assert copied == ["--from=environment /opt/tunebook /opt/tunebook"]


def test_it_runs_as_a_user_without_rights(dockerfile: Dockerfile) -> None:
    (user,) = dockerfile.last_stage().all("USER")
    assert re.fullmatch(r"100\d\d:100\d\d", user)
    assert f"--uid {user.partition(':')[0]}" in " ".join(dockerfile.last_stage().all("RUN"))


def test_it_has_the_extras_that_it_needs_and_no_others(dockerfile: Dockerfile) -> None:
    installed = re.findall(r"\.whl\)\[([\w,]+)\]", " ".join(dockerfile.all("RUN")))
    assert [set(extras.split(",")) for extras in installed] == [EXTRAS[image_of(dockerfile)]]


def test_packages_come_from_wherever_pip_is_told_to_look(dockerfile: Dockerfile) -> None:
    text = dockerfile.path.read_text()
    assert "index-url" not in text
    assert "http" not in " ".join(dockerfile.all("RUN"))


def test_it_says_whether_it_is_healthy_and_what_it_runs(dockerfile: Dockerfile) -> None:
    assert dockerfile.command("ENTRYPOINT") == ["tunebook"]
    assert dockerfile.command("HEALTHCHECK")
    assert dockerfile.command("CMD")


def test_all_that_it_copies_makes_the_wheel(dockerfile: Dockerfile) -> None:
    """As setuptools is told: a folder that is not copied would be missing from the wheel."""
    copied = {
        source
        for words in dockerfile.all("COPY")
        if not words.startswith("--from")
        for source in words.removeprefix("--chmod=755 ").split()[:-1]
    }
    assert all((ROOT / source).exists() for source in copied)
    folders = re.findall(
        r'^"tunebook\.[\w.]+" = "(\w+)', (ROOT / "pyproject.toml").read_text(), re.M
    )
    assert {*folders, "pyproject.toml", "README.md"} <= copied
    admitted = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.M)
    assert all(any(Path(source).is_relative_to(one) for one in admitted) for source in copied)


def test_a_linter_of_dockerfiles_has_nothing_to_say(dockerfile: Dockerfile) -> None:
    program = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        pytest.skip("no hadolint is installed")
    done = subprocess.run([program, dockerfile.path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
