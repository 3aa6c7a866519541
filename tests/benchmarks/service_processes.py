"""The servers that service.py compares: `python service_processes.py bare|coordinator ARGUMENTS`.

Each listens at a free port of this machine, prints that port, and runs until it is ended.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from tunebook.cache.remote.lookup_documents import LookupDocument
from tunebook.cache.store import Store
from tunebook.service.api.documents.lookup_models import LookupRequest
from tunebook.service.api.server import Listening, make_server
from tunebook.service.api.settings import Limits, Settings
from tunebook.service.app import create_app

# So little that it fills up in the time of a run.
ANSWER_BYTES = 64 * 2**20


def bare(answer: str) -> FastAPI:
    """Parses and validates the question, and serialises an answer that stands in a file."""
    constant = LookupDocument.model_validate_json(Path(answer).read_bytes())
    app = FastAPI()

    @app.post("/api/v1/lookups")
    async def look_up(question: LookupRequest) -> LookupDocument:
        return constant

    return app


def coordinator(database: str, models: str) -> FastAPI:
    """The coordinator as `tunebook serve` runs it, without a limit on how often it is asked."""
    limits = Limits(token_rate=1e9, token_burst=10**9, answer_bytes=ANSWER_BYTES)
    return create_app(Settings(models=models, limits=limits), Store.open(database))


def serve(app: Any) -> None:
    listening = Listening("127.0.0.1", 0)
    with listening.bind() as bound:
        port = bound.getsockname()[1]
        stopping = getattr(app.state, "stopping", threading.Event())
        make_server(app, listening, stopping, lambda: print(json.dumps(port), flush=True)).run(
            sockets=[bound]
        )


if __name__ == "__main__":
    kind, *arguments = sys.argv[1:]
    serve({"bare": bare, "coordinator": coordinator}[kind](*arguments))
