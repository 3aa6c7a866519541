"""A coordinator as Python asks it: answers as a store does, without TVM and without a database."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlencode

import httpx
from pydantic import BaseModel, ValidationError

from tunebook.cache.errors import ModelError, ServerError, TunebookError, UnreachableError
from tunebook.cache.keys import ScheduleKey, WorkloadKey
from tunebook.cache.likeness import NO_HINTS, LookupHints
from tunebook.cache.misses import LookupAnswer, Miss
from tunebook.cache.records import Model, StoredModel
from tunebook.cache.remote.lookup_documents import LookupDocument, lookup_answer
from tunebook.cache.remote.retries import Retries
from tunebook.cache.remote.server_requests import ServerRequests, checked_urls
from tunebook.cache.remote.split_documents import (
    HoldersDocument,
    SplitsDocument,
    WorkloadsDocument,
    holder,
    model_of,
    workload_key,
)
from tunebook.cache.remote.token_file import given_token, read_local_token

PIPELINE_VARIABLE = "TUNEBOOK_PIPELINE"
# A coordinator takes 2,000 unless it was told otherwise.
_KEYS_A_REQUEST = 1_000
# They change nothing, so they may be made again.
_READING_POSTS = ("/lookups", "/plans", "/models/holding")
_REPEATABLE = ("GET", "HEAD", "PUT", "DELETE")

Document = TypeVar("Document", bound=BaseModel)


class Client:
    """A coordinator that is asked over HTTP; safe to share between threads.

    Answers look-ups as a `Store` does, so that builds take either. Requests that fail are made
    again where that is safe (retries.py). What the coordinator refuses is raised as the error that
    it would be here, anything else as ServerError, and UnreachableError where it does not answer.
    `pipeline` is the name under which look-ups are counted.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        pipeline: str | None = None,
        retries: Retries | None = None,
        transport: httpx.BaseTransport | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """`url` may be several, separated by commas: those of replicas with one database. Without a
        token the one in TUNEBOOK_TOKEN or in the file that TUNEBOOK_TOKEN_FILE names, else the one
        that a coordinator on this machine left for its user; without a pipeline the one in
        TUNEBOOK_PIPELINE; without retries as TUNEBOOK_PATIENCE says. Raises UsageError for what is
        no URL of a coordinator, and for a file that cannot be read."""
        given = token or given_token(environment)
        self._requests = ServerRequests(
            checked_urls(url),
            lambda one: given or read_local_token(one),
            retries or Retries.of(environment),
            transport,
        )
        self._pipeline = pipeline or environment.get(PIPELINE_VARIABLE, "")

    @property
    def url(self) -> str:
        """The coordinator's address; of several, that of the one which is asked."""
        return self._requests.url

    def close(self) -> None:
        """Closes the connections."""
        self._requests.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- look-ups ----------------------------------------------------------------------------
    def lookup(
        self,
        keys: Sequence[ScheduleKey],
        *,
        accept_emulated: bool = False,
        hints: LookupHints = NO_HINTS,
    ) -> LookupAnswer:
        """See Store.lookup; keys of one target and compiler are answered from one snapshot, as many
        as one request takes."""
        return self._ask_for(keys, accept_emulated, hints, counted=True)

    def explain(
        self,
        keys: Sequence[ScheduleKey],
        *,
        accept_emulated: bool = False,
        hints: LookupHints = NO_HINTS,
    ) -> tuple[Miss, ...]:
        """See Store.explain."""
        return self._ask_for(keys, accept_emulated, hints, counted=False).misses

    def _ask_for(
        self,
        keys: Sequence[ScheduleKey],
        accept_emulated: bool,
        hints: LookupHints,
        *,
        counted: bool,
    ) -> LookupAnswer:
        answers = [
            self._look_up(
                {
                    "target": target,
                    "compiler": compiler,
                    "workloads": [_workload(key, hints) for key in some],
                    "features": hints.features.get(target, ""),
                    "accept_emulated": accept_emulated,
                    "counted": counted,
                }
            )
            for target, compiler, some in _batches(keys)
        ]
        hits = {key: one for answer in answers for key, one in answer.hits.items()}
        misses = {miss.key: miss for answer in answers for miss in answer.misses}
        wanted = list(dict.fromkeys(keys))
        if not all(key in hits or key in misses for key in wanted):
            raise self._strange("/lookups", "it leaves out keys that were asked for")
        return LookupAnswer(
            hits={key: hits[key] for key in wanted if key in hits},
            misses=tuple(misses[key] for key in wanted if key not in hits),
            passed_over=tuple(one for answer in answers for one in answer.passed_over),
        )

    def lookup_model(
        self,
        digest: str,
        target: str,
        *,
        shapes: Mapping[str, Sequence[int]] | None = None,
        compiler: str | None = None,
        accept_emulated: bool = False,
    ) -> LookupAnswer:
        """What a build of a model would look up, by the SHA-256 of its file: its keys are known
        since it was split. Raises ModelNotSplitError, and AmbiguousModelError where shapes or
        compiler have to say which split is meant."""
        question: dict[str, Any] = {
            "target": target,
            "model": digest,
            "accept_emulated": accept_emulated,
        }
        if shapes:
            question["shapes"] = {name: list(shape) for name, shape in shapes.items()}
        if compiler is not None:
            question["compiler"] = compiler
        return self._look_up(question)

    def find_model(self, digest: str, shapes: str, target: str, compiler: str) -> Model | None:
        """See Store.find_model; without the programs."""
        query = urlencode({"target": target, "compiler": compiler})
        found = self.read_document(SplitsDocument, "GET", f"/models/{digest}/splits?{query}")
        fitting = [one for one in found.items if one.shapes == shapes]
        return model_of(digest, fitting[0]) if fitting else None

    def find_workloads(
        self, workload_hash: str, buffers: str, compiler: str
    ) -> tuple[WorkloadKey, ...]:
        """See Store.find_workloads."""
        query = urlencode({"hash": workload_hash, "buffers": buffers, "compiler": compiler})
        found = self.read_document(WorkloadsDocument, "GET", f"/workloads?{query}")
        return tuple(map(workload_key, found.items))

    def models_holding(
        self, workloads: Sequence[WorkloadKey], target: str, limit: int = 16
    ) -> tuple[StoredModel, ...]:
        """See Store.models_holding; of very many workloads the first count."""
        if not workloads:
            return ()
        question = {
            "target": target,
            "workloads": [vars(key) for key in workloads[:_KEYS_A_REQUEST]],
            "limit": limit,
        }
        found = self.read_document(HoldersDocument, "POST", "/models/holding", question)
        try:
            return tuple(map(holder, found.items))
        except ValueError as error:
            raise self._strange("/models/holding", str(error)) from None

    # --- everything else ---------------------------------------------------------------------
    def request(
        self, method: str, path: str, json: Any = None, idempotency_key: str | None = None
    ) -> Any:
        """What the coordinator answers to a request for a path below `/api/v1`, parsed; None for
        no content. A POST is made again only where it changes nothing, or has a key that makes it
        count once."""
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        reads = method in _REPEATABLE or path.partition("?")[0] in _READING_POSTS
        response = self._requests.send(
            method,
            path,
            lambda: {"headers": headers, **({} if json is None else {"json": json})},
            repeatable=reads or idempotency_key is not None,
        )
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError:
            raise self._strange(path, "it is not JSON") from None

    def read_document(
        self, kind: type[Document], method: str, path: str, json: Any = None
    ) -> Document:
        """What the coordinator answers to a request (see `request`), as a document. Raises
        ServerError for an answer of another form."""
        try:
            return kind.model_validate(self.request(method, path, json))
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            where = ".".join(map(str, fault["loc"])) or "all of it"
            raise self._strange(path, f"{where}: {fault['msg']}") from None

    def upload_model(self, digest: str, path: Path) -> None:
        """Sends a model's file, whose SHA-256 this is, unless the coordinator has it. Raises
        ModelError where the file cannot be read, or is not what the digest says."""
        place = f"/models/{digest}"
        try:
            self._requests.send("HEAD", place, repeatable=True)
            return
        except UnreachableError:
            raise
        except TunebookError:
            # It is not there, or there is another reason, which an answer to HEAD cannot hold.
            pass
        try:
            with path.open("rb") as file:
                self._requests.send("PUT", place, lambda: _upload(file), repeatable=True)
        except OSError as error:
            raise ModelError(f"{path} cannot be read: {error.strerror}; give a file") from None

    def read(self, digest: str) -> Iterator[bytes]:
        """A model's file in pieces, as `ModelFiles.read` gives it; needs the role worker. Raises
        NotFoundError before the first."""
        return self._requests.pieces(f"/models/{digest}")

    def _look_up(self, question: Mapping[str, Any]) -> LookupAnswer:
        asked = {**question, "on_miss": "report", "pipeline": self._pipeline}
        found = self.read_document(LookupDocument, "POST", "/lookups", asked)
        try:
            return lookup_answer(found)
        except ValueError as error:
            raise self._strange("/lookups", str(error)) from None

    def _strange(self, path: str, what: str) -> ServerError:
        place = path.partition("?")[0]
        return ServerError(
            f"{self.url} answers to {place} as no coordinator of this version does: {what}; check "
            "its address and version"
        )


def _batches(keys: Sequence[ScheduleKey]) -> Iterator[tuple[str, str, list[ScheduleKey]]]:
    """The keys by target and compiler, as many as one request takes."""
    places: dict[tuple[str, str], list[ScheduleKey]] = {}
    for key in dict.fromkeys(keys):
        places.setdefault((key.target, key.compiler), []).append(key)
    for (target, compiler), wanted in places.items():
        for start in range(0, len(wanted), _KEYS_A_REQUEST):
            yield target, compiler, wanted[start : start + _KEYS_A_REQUEST]


def _workload(key: ScheduleKey, hints: LookupHints) -> dict[str, Any]:
    told: dict[str, Any] = {"op": key.op, "buffers": key.buffers, "hash": key.workload_hash}
    likeness = hints.likeness.get(key.workload)
    return told if likeness is None else {**told, "likeness": vars(likeness)}


def _upload(file: Any) -> dict[str, Any]:
    """The file from its beginning, in chunks as it is read."""
    file.seek(0)
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
    return {"content": file, "headers": headers}
