"""Every kind of problem that the coordinator answers with: its status, title and page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProblemType:
    """A kind of problem. `status` is what it is answered with; `page` says in a few lines what it
    means and what to do next."""

    status: int
    title: str
    page: str


# By the last part of `/problems/...`; docs/operations.md lists the same.
PROBLEM_TYPES = {
    "schedule-miss": ProblemType(
        409,
        "Schedules are missing",
        "The cache does not have every schedule that was asked for. `misses` says for each why, "
        "what is nearest, and which command mends it; `hits` are those that it has. Ask with "
        '"on_miss": "report" to have both lists with status 200.',
    ),
    "invalid": ProblemType(
        422,
        "The request cannot be read",
        "A field is missing, unknown, or of the wrong form. `errors` says where and what; the "
        "document at /api/v1/openapi.json has every field.",
    ),
    "usage": ProblemType(
        422,
        "What was asked for does not fit together",
        "The detail says which values do not fit together, and which would.",
    ),
    "bad-target": ProblemType(
        422,
        "No such target",
        "A target is incomplete, unknown, or contradicts itself. It needs at least -mtriple and "
        "-num-cores; the detail names the nearest known word.",
    ),
    "bad-model": ProblemType(
        422,
        "The model cannot be used",
        "A model cannot be read, imported or split, or is of a kind that is not accepted here. "
        "ONNX files without external data are; `.pt2` files are not, since reading one runs what "
        "is in it.",
    ),
    "wrong-digest": ProblemType(
        422,
        "The upload is not what its address says",
        "The address of a model is the SHA-256 of its file. What arrived has another one: it was "
        "damaged or cut short on its way. Nothing was stored; send it again.",
    ),
    "idempotency-key-reused": ProblemType(
        422,
        "The key was used for something else",
        "This Idempotency-Key came with another body before. A retry sends the same body; anything "
        "else needs a key of its own.",
    ),
    "budget": ProblemType(
        422,
        "The budget cannot serve",
        "A budget is too small for what it is for, its deadline has passed, or its parts "
        "contradict each other.",
    ),
    "untrusted-trace": ProblemType(
        422,
        "The trace is refused",
        "A trace holds an instruction or annotation outside the list of what is ever replayed.",
    ),
    "untrusted-program": ProblemType(
        422,
        "The program is refused",
        "A program from outside holds a part outside the list of what is ever loaded.",
    ),
    "interchange": ProblemType(
        422,
        "The files cannot be taken over",
        "Files of another program cannot be read here, or would be overwritten.",
    ),
    "unauthorized": ProblemType(
        401,
        "Who is asking is not known",
        "Send a token as `Authorization: Bearer tbk_...`. `tunebook token create` makes one, on "
        "the machine of the database; one that was revoked is good for nothing any more.",
    ),
    "forbidden": ProblemType(
        403,
        "This token may not do that",
        "The token is good, and its role is not the one that this needs. The detail names both; "
        "`tunebook token create NAME --role ROLE` makes another.",
    ),
    "foreign-host": ProblemType(
        421,
        "The coordinator has another name",
        "The Host of the request is no name of this coordinator, which keeps pages elsewhere from "
        "reaching it through a name of theirs. Use the address that `tunebook serve` prints, or "
        "start it with --name for every further name that it goes by.",
    ),
    "foreign-origin": ProblemType(
        403,
        "Another page may not ask here",
        "A browser sent this request for a page of another origin. Only the coordinator's own "
        "pages, and programs that are no browsers, may ask.",
    ),
    "cross-site": ProblemType(
        403,
        "The request did not come from a page of the coordinator",
        "What a page changes is sent by that page, with its origin and the code that it was given. "
        "Load the page again and repeat what you did.",
    ),
    "not-found": ProblemType(
        404,
        "There is nothing of that name",
        "Nothing is stored under that number or name, or the address is not one of the "
        "coordinator's; /api/v1/openapi.json lists them.",
    ),
    "model-not-split": ProblemType(
        404,
        "The model's keys are not known",
        "The model was never split for this target by this compiler, so that the keys it asks for "
        "are not known here. Submit a job for it, or send its workloads.",
    ),
    "ambiguous-model": ProblemType(
        409,
        "The model is known in several ways",
        "The model was split with different shapes or choices. Say which are meant.",
    ),
    "method-not-allowed": ProblemType(
        405,
        "That cannot be done to this address",
        "The address is right and the method is not; the header Allow lists those that are.",
    ),
    "request-timeout": ProblemType(
        408,
        "The request did not arrive",
        "The body of the request stopped arriving. Send it again.",
    ),
    "lease-lost": ProblemType(
        409,
        "Another worker has the round",
        "The lease of a round was lost to another worker. Stop writing to it.",
    ),
    "too-large": ProblemType(
        413,
        "The request is too large",
        "A body, sent or unpacked, or the list of workloads is larger than is accepted; the detail "
        "has the limit. Ask in several requests.",
    ),
    "unsupported-media": ProblemType(
        415,
        "The body is of a kind that is not accepted",
        "The API takes JSON (Content-Type: application/json), as it is or with Content-Encoding: "
        "gzip, and models as application/octet-stream as they are.",
    ),
    "too-many-requests": ProblemType(
        429,
        "Too many requests",
        "This token, or this address without a good token, asks more often than is allowed. Wait "
        "for as many seconds as the header Retry-After says.",
    ),
    "bad-request": ProblemType(
        400,
        "The request cannot be read",
        "The request is no proper HTTP request for this address.",
    ),
    "unexpected": ProblemType(
        500,
        "A fault of Tunebook",
        "This is a fault of the coordinator itself. Its log has the same incident number with what "
        "happened; report that.",
    ),
    "failure": ProblemType(
        500,
        "It did not work",
        "Something failed that has no kind of its own; the detail says what.",
    ),
    "incompatible": ProblemType(
        501,
        "A library is missing",
        "The coordinator runs without a library, or with a version of one, that this needs.",
    ),
    "no-board": ProblemType(
        503,
        "No board can be had",
        "No board of that class is registered or free.",
    ),
    "database": ProblemType(
        503,
        "The database does not answer",
        "The database cannot be reached, is locked, full, or of another version. /readyz says "
        "which part is not ready; the coordinator's log has the details.",
    ),
    "busy": ProblemType(
        503,
        "The coordinator is busy",
        "There is no room for another request now. Wait for as many seconds as the header "
        "Retry-After says.",
    ),
    "not-ready": ProblemType(
        503,
        "The coordinator is not ready",
        "A part of the coordinator is not ready; `parts` says which and why.",
    ),
    "no-room": ProblemType(
        507,
        "There is no room left",
        "The disk of the coordinator has no room for what was sent. Nothing was stored.",
    ),
    "server": ProblemType(
        502,
        "Another server refused",
        "A server that the coordinator needs cannot be reached, or refuses.",
    ),
}
