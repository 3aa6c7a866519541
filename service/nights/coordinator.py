"""What a night asks of a coordinator: typed, and patient where the connection is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, ValidationError

from tunebook.cache.boards.board_reports import ClassDefaults
from tunebook.cache.errors import (
    AmbiguousModelError,
    ModelNotSplitError,
    ServerError,
    UnreachableError,
)
from tunebook.service.known_classes import KnownClass, told_cores
from tunebook.service.nights.documents import (
    BoardClassDocument,
    BudgetDocument,
    ExpectedGain,
    JobDocument,
    PageDocument,
    PlanDocument,
    Standing,
)
from tunebook.service.nights.night_file import NightBudget
from tunebook.service.nights.night_jobs import NightJob

if TYPE_CHECKING:
    from tunebook.cache.remote.client import Client

# By which the coordinator counts what nights look up.
PIPELINE = "nightly"
_PAGE = 200
# Between two attempts; the client itself has tried several times by then.
_PAUSE_SECONDS = 2.0
# A coordinator that is being restarted or upgraded is back by then.
_PATIENCE_SECONDS = 900.0

Document = TypeVar("Document", bound=BaseModel)
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Patience:
    """How long a lost connection is waited for, on a monotonic clock; `tell` hears of it."""

    monotonic: Callable[[], float]
    sleep: Callable[[float], None]
    tell: Callable[[str], None]
    seconds: float = _PATIENCE_SECONDS


class Coordinator:
    """A coordinator as a night uses it.

    Every request may be made again: what creates something has a key. Once a first one was
    answered, a lost connection is waited for.
    """

    def __init__(self, client: Client, patience: Patience) -> None:
        self._client = client
        self._patience = patience
        self._was_there = False

    # --- budgets -----------------------------------------------------------------------------
    def find_budget(self, name: str) -> BudgetDocument | None:
        """The budget of a night, if there is one yet."""
        found = self._list("/budgets", BudgetDocument, name=name)
        return next((one for one in found if one.name == name), None)

    def create_budget(
        self, name: str, limits: NightBudget, deadline: datetime | None, key: str
    ) -> BudgetDocument:
        """A budget that all jobs of a night share."""
        body = {
            "name": name,
            "trials": limits.trials,
            "seconds": limits.time,
            "board_seconds": limits.board_time,
            "deadline": None if deadline is None else deadline.isoformat(),
        }
        given = {field: value for field, value in body.items() if value is not None}
        return self._read("POST", "/budgets", BudgetDocument, given, key)

    def budget(self, budget_id: int) -> BudgetDocument:
        """A budget and what was used of it."""
        return self._read("GET", f"/budgets/{budget_id}", BudgetDocument)

    # --- jobs --------------------------------------------------------------------------------
    def submit(self, job: NightJob, budget_id: int, key: str) -> JobDocument:
        """The job that this key made, now or before."""
        wanted = job.wanted
        body: dict[str, Any] = {
            "model": job.digest,
            "target": job.target,
            "board_class": wanted.target.board_class,
            "budget_id": budget_id,
            "priority": wanted.priority,
            "name": wanted.model.name,
            "shapes": wanted.shapes,
        }
        if wanted.model.layout is not None:
            body["layout"] = wanted.model.layout
        return self._read("POST", "/jobs", JobDocument, body, key)

    def jobs_of(self, budget_id: int) -> list[JobDocument]:
        """All jobs of a budget, newest first, without tasks and logs."""
        return self._list("/jobs", JobDocument, budget_id=budget_id)

    def job(self, job_id: int) -> JobDocument:
        """A job with its tasks and its log."""
        return self._read("GET", f"/jobs/{job_id}", JobDocument)

    def cancel(self, job_id: int) -> None:
        """Ends a job; what it measured stays."""
        self._ask("DELETE", f"/jobs/{job_id}")

    # --- models and schedules ----------------------------------------------------------------
    def upload(self, job: NightJob) -> None:
        """Sends the model of a job, unless the coordinator has it."""
        self._persist(lambda: self._client.upload_model(job.digest, job.wanted.model.path))

    def standing(self, job: NightJob, compiler: str | None = None) -> Standing | None:
        """What the cache has for the model of a job; None where it was never split for it, or in
        several ways of which none is that of its boards' compiler."""
        try:
            found = self._persist(
                lambda: self._client.lookup_model(
                    job.digest,
                    job.target,
                    shapes=job.wanted.shapes,
                    compiler=compiler,
                    accept_emulated=job.emulated,
                )
            )
        except ModelNotSplitError:
            return None
        except AmbiguousModelError:
            compilers = self._compilers(job.wanted.target.board_class)
            if compiler is not None or len(compilers) != 1:
                return None
            return self.standing(job, compilers.pop())
        return Standing(
            hits={str(key): schedule.seconds for key, schedule in found.hits.items()},
            misses=tuple(str(miss.key) for miss in found.misses),
        )

    # --- boards ------------------------------------------------------------------------------
    def known_class(self, name: str) -> KnownClass:
        """What is known of a board class."""
        found = self._board_class(name)
        given = found.defaults
        defaults = None if given is None else ClassDefaults(**given.model_dump())
        return KnownClass(name, defaults, told_cores(board.cores for board in found.boards))

    def _compilers(self, board_class: str) -> set[str]:
        """Those of the workers that have boards of a class."""
        boards = self._board_class(board_class).boards
        return {worker.compiler for board in boards for worker in board.workers}

    def _board_class(self, name: str) -> BoardClassDocument:
        listed = self._list("/boards", BoardClassDocument)
        found = (one for one in listed if one.board_class == name)
        return next(found, BoardClassDocument(board_class=name, boards=[]))

    # --- what is expected --------------------------------------------------------------------
    def wants_trials(self, job: NightJob, trials_per_task: int) -> bool:
        """Whether the tasks of a job had fewer trials than these on average, and the search may
        still find something new."""
        plan = self._plan([job], trials_per_task=trials_per_task)
        return plan.demand.trials > 0

    def expected_gains(self, jobs: Sequence[NightJob]) -> list[tuple[NightJob, ExpectedGain]]:
        """What another hour is expected to bring each of these jobs when they share it, of those
        whose models were split."""
        if not jobs:
            return []
        plan = self._plan(jobs)
        return [(jobs[one.job], one) for one in plan.another_hour]

    def _plan(self, jobs: Sequence[NightJob], **options: Any) -> PlanDocument:
        body = {"jobs": [_planned(job) for job in jobs], **options}
        return self._read("POST", "/plans", PlanDocument, body)

    # --- requests ----------------------------------------------------------------------------
    def _list(self, path: str, kind: type[Document], **query: Any) -> list[Document]:
        """All items of a list, page by page."""
        found: list[Document] = []
        cursor: str | None = None
        while True:
            asked = {**query, "limit": _PAGE, **({"cursor": cursor} if cursor else {})}
            answer = self._ask("GET", f"{path}?{urlencode(asked)}")
            page = _parse(PageDocument, answer, path)
            found += [_parse(kind, item, path) for item in page.items]
            cursor = page.next
            if not cursor:
                return found

    def _read(
        self,
        method: str,
        path: str,
        kind: type[Document],
        json: Any = None,
        key: str | None = None,
    ) -> Document:
        return _parse(kind, self._ask(method, path, json, key), path)

    def _ask(self, method: str, path: str, json: Any = None, key: str | None = None) -> Any:
        return self._persist(lambda: self._client.request(method, path, json, key))

    def _persist(self, attempt: Callable[[], Answer]) -> Answer:
        """Tries until there is an answer, while a coordinator that was there may come back."""
        lost_at: float | None = None
        while True:
            try:
                answer = attempt()
            except UnreachableError as error:
                now = self._patience.monotonic()
                lost_at = now if lost_at is None else lost_at
                if not self._was_there or now - lost_at > self._patience.seconds:
                    raise
                self._patience.tell(str(error))
                self._patience.sleep(_PAUSE_SECONDS)
            else:
                self._was_there = True
                return answer


def _planned(job: NightJob) -> dict[str, Any]:
    return {
        "model": job.digest,
        "name": job.wanted.model.name,
        "shapes": job.wanted.shapes,
        "target": job.target,
        "board_class": job.wanted.target.board_class,
        "priority": job.wanted.priority,
    }


def _parse(kind: type[Document], answer: Any, path: str) -> Document:
    """Raises ServerError for an answer of another form than documented."""
    try:
        return kind.model_validate(answer)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"])) or "the answer"
        raise ServerError(
            f"what answers to {path} is no coordinator of this version: {where}: {fault['msg']}; "
            f"check its address and version"
        ) from None
