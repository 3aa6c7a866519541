"""Look-ups: all schedules of a build in one answer, or why some are missing."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from tunebook.cache.boards.board_reports import ClassDefaults
from tunebook.cache.lookup.answers import Answered, SplitQuestion
from tunebook.cache.misses import ScheduleMissError
from tunebook.cache.remote.lookup_documents import LookupDocument, lookup_document
from tunebook.cache.store import Store
from tunebook.service.api.documents.lookup_models import (
    LookupRequest,
    ScheduleMissDocument,
    UnchangedDocument,
)
from tunebook.service.api.guards.dependencies import Role, StoreOf, require
from tunebook.service.api.lookups.lookup_counter import Tally
from tunebook.service.api.lookups.lookup_desk import LookupDesk
from tunebook.service.api.lookups.remembered_answers import LookupReply, RememberedAnswers
from tunebook.service.api.problems.problems import MEDIA_TYPE, Problem

_JSON = "application/json"
_SCHEMAS = "#/components/schemas/"
_PROBLEM = f"{_SCHEMAS}ProblemDocument"


class _RememberingRoute(APIRoute):
    """Answers what was asked before from memory, without so much as reading the question.

    The revision is asked for when all of the request is here: until then it may rise.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        look_up = super().get_route_handler()
        check_token = require(Role.READ)

        async def answer(request: Request) -> Response:
            await check_token(request)
            desk: LookupDesk = request.app.state.lookups
            name = RememberedAnswers.name(await request.body())
            now = await desk.revision()
            reply = await desk.known_reply(name, now)
            if reply is not None:
                response = _response(reply)
            else:
                response = await look_up(request)
                reply = request.state.lookup_reply
                desk.keep(response, name, reply)
            if reply.counted:
                desk.counter.count(reply.pipeline, reply.tally)
            return response

        return answer


def _miss_schema() -> dict[str, Any]:
    """What it refers to stands in the document already."""
    schema = ScheduleMissDocument.model_json_schema(ref_template=_SCHEMAS + "{model}")
    schema.pop("$defs", None)
    return schema


router = APIRouter(tags=["look-ups"], route_class=_RememberingRoute)


@router.post(
    "/lookups",
    summary="Look up schedules",
    response_model=None,
    responses={
        200: {
            "model": LookupDocument | UnchangedDocument,
            "description": "Every key hit, or what missed was to be reported; or nothing changed.",
        },
        409: {
            "description": "`schedule-miss`: keys missed. `ambiguous-model`, without hits and "
            "misses: the model was split in several ways.",
            "content": {
                MEDIA_TYPE: {"schema": {"anyOf": [_miss_schema(), {"$ref": _PROBLEM}]}},
            },
        },
    },
)
def look_up(
    question: LookupRequest,
    request: Request,
    store: StoreOf,
) -> Response:
    """Looks up everything that a build needs, in one snapshot. A hit needs the whole key; what is
    served is verified and was measured on a real board, unless `accept_emulated` says otherwise.

    A model that was never split for the target is a problem of type `model-not-split` (404).

    With `on_miss: "error"` a single miss makes the answer a problem of type `schedule-miss`, which
    holds the hits too. With `known` an answer that the caller has is not sent again; one with
    misses always is, unless they are only to be reported.
    """
    before = None if question.board_class is None else store.revisions.now()
    target = question.canonical_target(_defaults(question, store))
    reply = _reply(question, target, _answered(question, target, store), request.url.path)
    # The target may be older than the answer: it is remembered for as long as both hold.
    request.state.lookup_reply = reply if before is None else replace(reply, revision=before)
    return _response(reply)


def _defaults(question: LookupRequest, store: Store) -> ClassDefaults | None:
    return None if question.board_class is None else store.boards.defaults(question.board_class)


def _answered(question: LookupRequest, target: str, store: Store) -> Answered:
    if question.model is None:
        return store.answers.of_keys(
            target,
            question.keys(target),
            accept_emulated=question.accept_emulated,
            hints=question.hints(target),
        )
    shapes = {name: tuple(shape) for name, shape in (question.shapes or {}).items()}
    split = SplitQuestion(question.model, target, shapes, question.compiler)
    return store.answers.of_model(split, accept_emulated=question.accept_emulated)


def _reply(question: LookupRequest, target: str, answered: Answered, instance: str) -> LookupReply:
    answer = answered.answer
    document = lookup_document(answer)
    refused = bool(answer.misses) and question.on_miss == "error"
    if refused:
        problem = Problem("schedule-miss", str(ScheduleMissError(answer.misses)))
        told = ScheduleMissDocument(**problem.document(instance), **dict(document))
        body = told.model_dump_json(exclude={"errors", "incident"})
    elif question.known == document.digest:
        body = UnchangedDocument(digest=document.digest).model_dump_json()
    else:
        body = document.model_dump_json()
    return LookupReply(
        status=409 if refused else 200,
        media_type=MEDIA_TYPE if refused else _JSON,
        body=body.encode(),
        pipeline=question.pipeline,
        counted=question.counted,
        tally=Tally.of(answer, target, is_stored=answered.target_is_stored),
        revision=answered.revision,
    )


def _response(reply: LookupReply) -> Response:
    return Response(reply.body, reply.status, media_type=reply.media_type)
