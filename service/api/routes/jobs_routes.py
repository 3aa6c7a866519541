"""Jobs: submitted, listed, read and cancelled."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from tunebook.cache.model_files import ModelFiles
from tunebook.cache.queue.submissions import Job, JobFilter, JobRequest, JobState
from tunebook.cache.store import Store
from tunebook.cache.targets import canonical_target
from tunebook.service.api.documents.field_types import RowId, RowNumber
from tunebook.service.api.documents.idempotency import IdempotencyKey, idempotency
from tunebook.service.api.documents.job_models import (
    JobDocument,
    JobSummary,
    job_document,
    job_summary,
)
from tunebook.service.api.documents.job_submissions import JobSubmission
from tunebook.service.api.documents.job_targets import job_target
from tunebook.service.api.documents.pagination import DEFAULT_LIMIT, Cursor, Cursors, Limit, Page
from tunebook.service.api.guards.dependencies import Reader, StoreOf, Submitter, get_model_files
from tunebook.service.api.problems.problems import Problem
from tunebook.service.given_fields import BoardClass, Digest, Name, TargetText
from tunebook.service.input_shapes import shapes_text
from tunebook.service.known_classes import known_class
from tunebook.tuner.splitting.choices import Choices

router = APIRouter(tags=["jobs"])

_CURSORS = Cursors("jobs")
Files = Annotated[ModelFiles, Depends(get_model_files)]


@router.post(
    "/jobs",
    summary="Submit a job",
    status_code=201,
    response_model=JobDocument,
    responses={
        200: {
            "model": JobDocument,
            "description": "The job that an earlier request with this Idempotency-Key made.",
        },
        201: {"description": "The job was made; Location is its address."},
    },
)
def submit_job(
    submission: JobSubmission,
    request: Request,
    response: Response,
    store: StoreOf,
    files: Files,
    token: Submitter,
    idempotency_key: IdempotencyKey = None,
) -> JobDocument:
    """Tunes a model for a target on boards of a class, within a budget.

    The model is uploaded first (`PUT /api/v1/models/{sha256}`). A job on a class that nobody serves
    waits until somebody does. Two open jobs for the same model, target and class, each with a
    budget of its own, share that budget, whose limits become the larger of each.
    """
    asked = idempotency(f"token-{token.id}", idempotency_key, "jobs", submission)
    # First of all: what let the first request through may be gone by the time of a retry.
    made = None if asked is None else store.queue.made_job(asked)
    created = made is None
    if made is None:
        answer = store.queue.submit(
            _job_request(store, files, submission), submission.chosen_budget(), asked
        )
        made, created = answer.job_id, answer.created
    response.status_code = 201 if created else 200
    response.headers["Location"] = f"{request.url.path}/{made}"
    return _document(store, store.queue.job(made))


@router.get("/jobs", summary="List jobs")
def list_jobs(
    store: StoreOf,
    token: Reader,
    state: Annotated[
        list[JobState] | None, Query(max_length=16, description="Any of these; repeatable.")
    ] = None,
    model: Digest | None = None,
    target: TargetText | None = None,
    board_class: BoardClass | None = None,
    budget_id: RowNumber | None = None,
    name: Name | None = None,
    cursor: Cursor = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[JobSummary]:
    """Jobs that were submitted, the newest first."""
    wanted = JobFilter(
        states=tuple(dict.fromkeys(state or ())),
        digest=model,
        target=None if target is None else str(canonical_target(target)),
        board_class=board_class,
        budget_id=budget_id,
        name=name,
    )
    after = _CURSORS.decode(cursor)
    found = store.queue.jobs(wanted, after=None if after is None else after[0], limit=limit + 1)
    jobs, following = _CURSORS.page(found, limit, lambda job: (job.id,))
    return Page(items=[job_summary(job) for job in jobs], next=following)


@router.get("/jobs/{job_id}", summary="Read a job")
def read_job(job_id: RowId, store: StoreOf, token: Reader) -> JobDocument:
    """A job with its tasks: trials, best and served times, the gain that the next trial is expected
    to bring, and what was spent and is left of each budget."""
    return _document(store, store.queue.job(job_id))


@router.delete("/jobs/{job_id}", summary="Cancel a job")
def cancel_job(job_id: RowId, store: StoreOf, token: Submitter) -> JobDocument:
    """Stops a job within a round, and keeps everything that it measured. A job that had ended stays
    as it is."""
    return _document(store, store.queue.cancel(job_id))


def _document(store: Store, job: Job) -> JobDocument:
    tasks = () if job.model_id is None else store.task_states(job.id)
    return job_document(job, tasks, store.queue.trials(job.id))


def _job_request(store: Store, files: ModelFiles, submission: JobSubmission) -> JobRequest:
    """What is submitted. Raises a problem for a model that is not there, and TargetError."""
    if not files.exists(submission.model):
        raise Problem(
            "bad-model",
            f"the model {submission.model} is not stored here; upload it with "
            f"PUT /api/v1/models/{submission.model}, and submit the job again",
        )
    return JobRequest(
        digest=submission.model,
        shapes=shapes_text(submission.shapes),
        target=job_target(submission.target, known_class(store, submission.board_class)),
        board_class=submission.board_class,
        choices="" if submission.layout is None else str(Choices(submission.layout)),
        name=submission.name,
        priority=submission.priority,
    )
