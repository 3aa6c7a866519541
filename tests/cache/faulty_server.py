"""A server that answers as it is told, one answer a request: faults that no coordinator makes at
will."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HANG_UP = "hang up"


@dataclass(frozen=True)
class Answer:
    """One answer: a status, a body (JSON unless it is text), and headers."""

    status: int
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class FaultyServer:
    """`answers` are given in turn, the last one for ever; `requests` are what came."""

    url: str
    answers: list[Answer | str]
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    def answer(self) -> Answer | str:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def faulty_server(*answers: Answer | str) -> Iterator[FaultyServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            told.requests.append((self.command, self.path, dict(self.headers), body))
            answer = told.answer()
            if not isinstance(answer, Answer):
                self.close_connection = True
                return
            text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text.encode())

        do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = do

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told = FaultyServer(f"http://127.0.0.1:{server.server_port}", list(answers))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
