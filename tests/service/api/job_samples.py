"""Jobs as clients submit them, and the models that they are for."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from cache_samples import A76, BOARD, conv, model_of
from fastapi.testclient import TestClient

from tunebook.cache.queue.fleet import ServedBoard
from tunebook.cache.records import Workload
from tunebook.cache.store import Store

# As an ONNX file begins; nothing here reads further.
MODEL = b"\x08\x08\x12\x04test" + bytes(100)
DIGEST = sha256(MODEL).hexdigest()


def upload(client: TestClient) -> str:
    """Uploads the model; gives its digest."""
    headers = {"Content-Type": "application/octet-stream"}
    client.put(f"/api/v1/models/{DIGEST}", content=MODEL, headers=headers).raise_for_status()
    return DIGEST


def submission(**changed: Any) -> dict[str, Any]:
    """What a client sends to submit a job; a value of None leaves a member out."""
    body = {
        "model": DIGEST,
        "target": A76,
        "board_class": BOARD,
        "budget": {"trials": 100},
        **changed,
    }
    return {name: value for name, value in body.items() if value is not None}


def submit(client: TestClient, **changed: Any) -> dict[str, Any]:
    """Submits a job; gives its document."""
    answer = client.post("/api/v1/jobs", json=submission(**changed))
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    return document


def announce(store: Store, *cores: int, board_class: str = BOARD) -> None:
    """A worker with boards of a class, one for each number of cores."""
    boards = [
        ServedBoard(board_class, f"board-{number}", emulated=False, cores=count)
        for number, count in enumerate(cores)
    ]
    store.fleet.announce("worker-1", boards, "idle")


def split(store: Store, *workloads: Workload) -> int:
    """Splits the job that is first in the queue, as a worker does; gives its id."""
    model = store.save_model(model_of(workloads or [conv()]))
    claimed = store.queue.claim_stage("worker-1", ["split"], [])
    assert claimed is not None
    store.queue.finish_split(claimed.job_id, claimed.epoch, model)
    return claimed.job_id
