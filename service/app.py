"""The application: its parts in order, its routes, and what it keeps while it runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from tunebook.cache.live.live import Live
from tunebook.cache.model_files import ModelFiles
from tunebook.cache.store import Store
from tunebook.service.api.fleet_metrics import FleetMetrics
from tunebook.service.api.guards.authentication import OPENAPI, Authentication
from tunebook.service.api.guards.limits import BodyLimits
from tunebook.service.api.guards.request_log import RequestLog
from tunebook.service.api.guards.security import ForeignRequests, SecurityHeaders
from tunebook.service.api.guards.shared_rate import SharedRate
from tunebook.service.api.job_event_feed import JobEventFeed
from tunebook.service.api.live_metrics import LiveMetrics
from tunebook.service.api.lookups.hot_answers import HotAnswers
from tunebook.service.api.lookups.lookup_desk import LookupDesk
from tunebook.service.api.metrics import Metrics
from tunebook.service.api.problems import problem_pages
from tunebook.service.api.problems.problems import (
    PROBLEM_RESPONSES,
    ProblemBoundary,
    ProblemDocument,
    install_problem_handlers,
)
from tunebook.service.api.processes.command_runner import CommandRunner
from tunebook.service.api.processes.job_keeper import JobKeeper
from tunebook.service.api.processes.scripts import Scripts
from tunebook.service.api.processes.worker_processes import WorkerProcesses
from tunebook.service.api.routes import (
    boards_routes,
    budgets_routes,
    events_routes,
    health_routes,
    interchange_routes,
    jobs_routes,
    lookups_routes,
    metrics_routes,
    models_routes,
    plans_routes,
    records_routes,
    schedules_routes,
    splits_routes,
    statistics_routes,
    targets_routes,
)
from tunebook.service.api.settings import Settings
from tunebook.service.dashboard import routes as dashboard_routes
from tunebook.service.dashboard.remembered_rates import RememberedRates

_PREFIX = "/api/v1"
_ROUTERS = (
    lookups_routes.router,
    splits_routes.router,
    statistics_routes.router,
    models_routes.router,
    jobs_routes.router,
    events_routes.router,
    budgets_routes.router,
    records_routes.router,
    schedules_routes.router,
    targets_routes.router,
    boards_routes.router,
    interchange_routes.router,
    plans_routes.router,
)


def create_app(
    settings: Settings,
    store: Store,
    *,
    workers: WorkerProcesses | None = None,
    live: Live | None = None,
) -> FastAPI:
    """The coordinator on a store that is open and stays the caller's, like `live` (None: without
    Redis). Raises UsageError and ServerError for a place of the models that cannot be used.

    `app.state` has `store`, `settings`, `model_files`, `metrics`, `workers`, `live` and `stopping`,
    an event that is set when the coordinator is about to stop: whoever streams then ends.
    """
    app = FastAPI(
        title="Tunebook",
        version="1",
        summary="Schedules for pipelines, and jobs that tune them.",
        openapi_url=OPENAPI,
        # Their pages load scripts from elsewhere, and labs have no internet.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
        generate_unique_id_function=_operation_id,
    )
    app.state.settings = settings
    app.state.store = store
    app.state.model_files = ModelFiles(settings.models)
    app.state.model_files.check()
    app.state.model_files.remove_abandoned(time.time())
    app.state.metrics = Metrics(store.watch_activity().read, scrape_seconds=settings.scrape_seconds)
    store.listen(app.state.metrics.observe_transaction)
    app.state.live = live = live or Live.open(None)
    store.follow(live.tell)
    app.state.metrics.also_collect(LiveMetrics(live))
    app.state.lookups = LookupDesk(
        store,
        pipelines=settings.pipelines,
        observe=app.state.metrics.count_lookups,
        answer_bytes=settings.limits.answer_bytes,
        hot=None if store.revisions.is_quick else HotAnswers(live.answers, live.counts),
    )
    app.state.metrics.also_collect(FleetMetrics(store.fleet.served))
    app.state.event_feed = JobEventFeed(store.queue.last_events, live)
    app.state.scripts = Scripts(store)
    app.state.command_runner = CommandRunner(store)
    app.state.workers = workers
    app.state.hit_rates = RememberedRates(store.statistics)
    app.state.stopping = asyncio.Event()
    _add_parts(app, settings, store, live)
    install_problem_handlers(app)
    for router in _ROUTERS:
        app.include_router(router, prefix=_PREFIX, responses=PROBLEM_RESPONSES)
    app.include_router(health_routes.router)
    app.include_router(metrics_routes.router)
    app.include_router(problem_pages.router)
    app.include_router(dashboard_routes.router)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _add_parts(app: FastAPI, settings: Settings, store: Store, live: Live) -> None:
    """What every request goes through. The one that is added last is the outermost."""
    limits = settings.limits
    app.add_middleware(BodyLimits, limits=limits)
    app.add_middleware(
        Authentication,
        tokens=store.tokens,
        revisions=store.revisions,
        token_rate=SharedRate(
            "token", live, limits.token_rate, limits.token_burst, limits.rated_clients
        ),
        address_rate=SharedRate(
            "address", live, limits.address_rate, limits.address_burst, limits.rated_clients
        ),
    )
    app.add_middleware(ForeignRequests, settings=settings)
    app.add_middleware(ProblemBoundary)
    app.add_middleware(RequestLog)
    app.add_middleware(SecurityHeaders)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    workers: WorkerProcesses | None = app.state.workers
    async with AsyncExitStack() as ends:
        ends.callback(app.state.lookups.stop)
        app.state.lookups.start()
        ends.push_async_callback(app.state.event_feed.close)
        keeper = JobKeeper(app.state.store.queue, look_seconds=app.state.settings.look_seconds)
        ends.callback(keeper.stop)
        keeper.start()
        if workers is not None:
            ends.callback(workers.stop)
            workers.start()
        ends.callback(app.state.stopping.set)
        yield


def _operation_id(route: APIRoute) -> str:
    return route.name


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with what FastAPI cannot see: bearer tokens, and problems."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, summary=app.summary, routes=app.routes
        )
        parts = document.setdefault("components", {})
        parts.setdefault("schemas", {})["ProblemDocument"] = ProblemDocument.model_json_schema(
            ref_template="#/components/schemas/{model}"
        )
        _lift_definitions(parts["schemas"])
        _say_problems(document)
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        app.openapi_schema = document
    return app.openapi_schema


def _say_problems(document: dict[str, Any]) -> None:
    """What a route says of one status of its own is a problem like all others."""
    for operations in document["paths"].values():
        for operation in operations.values():
            for status, answer in operation["responses"].items():
                if status[0] in "45":
                    answer.setdefault("content", PROBLEM_RESPONSES["4XX"]["content"])


def _lift_definitions(schemas: dict[str, Any]) -> None:
    """Schemas that one holds inside of it stand beside it in an OpenAPI document."""
    for name, schema in schemas["ProblemDocument"].pop("$defs", {}).items():
        schemas.setdefault(name, schema)
