"""What others made is there as released, with its licence."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

VENDOR = Path(__file__).parents[3] / "service" / "dashboard" / "static" / "vendor"
ROW = re.compile(r"^\| `([^`]+)` \| .* \| .*`([^`]+)` \| `([0-9a-f]{64})` \|$", re.MULTILINE)


def test_every_file_is_the_one_that_the_list_tells_of() -> None:
    listed = {
        name: (licence, digest)
        for name, licence, digest in ROW.findall((VENDOR / "README.md").read_text())
    }
    there = {path.relative_to(VENDOR).as_posix() for path in VENDOR.glob("*/*")}
    assert there == listed.keys() | {licence for licence, _ in listed.values()}
    for name, (_, digest) in listed.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name
