"""What the documents promise is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tunebook.cache.errors import ExitCode

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("document", ["README.md", "docs/operations.md"])
def test_every_exit_code_is_documented(document: str) -> None:
    rows = re.findall(r"^\| (\d+) \|", (ROOT / document).read_text(), re.MULTILINE)
    assert [int(code) for code in rows] == [int(code) for code in ExitCode]


def test_exit_codes_are_documented_under_their_names() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", text, re.MULTILINE)
    assert {name: int(code) for code, name in rows} == {code.name: code for code in ExitCode}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_what_a_document_points_to_exists(document: Path) -> None:
    text = document.read_text()
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    files = re.findall(r"`((?:cache|tuner|workers|service|tests|deploy)/[\w/.-]*)`", text)
    missing = [name for name in links if not (document.parent / name).exists()]
    missing += [name for name in files if not (ROOT / name).exists()]
    assert missing == []


def test_the_readme_shows_a_whole_run_of_the_demo() -> None:
    text = (ROOT / "README.md").read_text()
    transcript = text.partition("transcript:begin")[2].partition("transcript:end")[0]
    for said in (
        "trials in",
        "schedules came from the cache",
        "onnxruntime",
        "refused:",
        "differs:",
    ):
        assert said in transcript
