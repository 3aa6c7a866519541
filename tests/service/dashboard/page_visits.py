"""Who visits the pages in tests, what was looked up there, and what a browser makes of it."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from html.parser import HTMLParser

import httpx
from fastapi.testclient import TestClient

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import Miss
from tunebook.cache.statistics.lookup_counts import HIT, LookupCell
from tunebook.cache.statistics.lookup_statistics import LookupBatch
from tunebook.cache.statistics.missed_keys import MissedKey
from tunebook.cache.store import Store

HOST = "localhost"
FORM = {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "same-origin"}
PI = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"
SERVER = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=2"
COMPILER = "tvm-0.27.0+llvm-22"
BUFFERS = "f32[1,4,12,12] f32[8,4,3,3] -> f32[1,8,10,10]"

ATTACK = "</code></script><script src=//x></script><img src=x onerror=alert(1)>\"' onload=x {{7*7}}"


def code_of(page: httpx.Response) -> str:
    """The code in the form of a page."""
    found = re.search(r'name="csrf" value="(\w+)"', page.text)
    assert found is not None
    return found[1]


def sign_in(client: TestClient, secret: str, **fields: str) -> httpx.Response:
    form = {"csrf": code_of(client.get("/sign-in")), "token": secret, **fields}
    return client.post("/sign-in", data=form, headers=FORM)


def key(target: str, op: str = "conv2d+relu", number: int = 1) -> ScheduleKey:
    return ScheduleKey(op, BUFFERS, target, COMPILER, f"{number:016x}")


def count(store: Store, target: str, pipeline: str, hits: int, misses: int) -> None:
    """So many look-ups of this minute."""
    minute = int(datetime.now(timezone.utc).timestamp()) // 60
    cells = {
        LookupCell(target, minute, pipeline, HIT): hits,
        LookupCell(target, minute, pipeline, "never-tuned"): misses,
    }
    store.statistics.add(LookupBatch({cell: number for cell, number in cells.items() if number}))


def note_miss(store: Store, miss: Miss, pipeline: str = "nightly") -> None:
    now = datetime.now(timezone.utc)
    store.statistics.add(LookupBatch({}, [MissedKey(miss, pipeline, 3, now, now)]))


class Inspection(HTMLParser):
    """What of a page a browser would run, and what of it is text."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def inspect(page: httpx.Response) -> Inspection:
    inspection = Inspection()
    inspection.feed(page.text)
    return inspection


def assert_inert(page: httpx.Response) -> Inspection:
    """Nothing on the page but what the templates wrote would run."""
    found = inspect(page)
    for tag, attributes in found.tags:
        assert tag not in ("iframe", "object", "embed", "base", "style"), tag
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith(("on", "hx-on"))], attributes
        address = attributes.get("src") or attributes.get("href") or "/"
        assert address.startswith(("/static/", "/", "#")) and not address.startswith("//")
        if tag == "script":
            assert (attributes["src"] or "").startswith("/static/")
    return found
