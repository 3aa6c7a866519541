"""What routes ask for: the store, the settings, and a token that may do what they do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Annotated

from fastapi import Depends, Request

from tunebook.cache.access.tokens import Role, Token
from tunebook.cache.model_files import ModelFiles
from tunebook.cache.store import Store
from tunebook.service.api.job_event_feed import JobEventFeed
from tunebook.service.api.metrics import Metrics
from tunebook.service.api.problems.problems import Problem
from tunebook.service.api.processes.command_runner import CommandRunner
from tunebook.service.api.processes.scripts import Scripts
from tunebook.service.api.settings import Settings

__all__ = [
    "Reader",
    "Role",
    "StoreOf",
    "Submitter",
    "Token",
    "current_token",
    "get_command_runner",
    "get_event_feed",
    "get_metrics",
    "get_model_files",
    "get_scripts",
    "get_settings",
    "get_stopping",
    "get_store",
    "require",
]

# Coroutines throughout: FastAPI would hand a plain function to a thread, for every request.


async def get_store(request: Request) -> Store:
    """The store. Its methods wait for the database: call them in routes that are plain functions,
    or in a thread."""
    store: Store = request.app.state.store
    return store


async def get_settings(request: Request) -> Settings:
    """What the coordinator was told when it started."""
    settings: Settings = request.app.state.settings
    return settings


async def get_model_files(request: Request) -> ModelFiles:
    """Where uploaded models lie."""
    files: ModelFiles = request.app.state.model_files
    return files


async def get_metrics(request: Request) -> Metrics:
    """What is counted for Prometheus."""
    metrics: Metrics = request.app.state.metrics
    return metrics


async def get_command_runner(request: Request) -> CommandRunner:
    """Runs commands that need TVM."""
    runner: CommandRunner = request.app.state.command_runner
    return runner


async def get_event_feed(request: Request) -> JobEventFeed:
    """Tells of new events of jobs."""
    feed: JobEventFeed = request.app.state.event_feed
    return feed


async def get_scripts(request: Request) -> Scripts:
    """Makes scheduled programs readable."""
    scripts: Scripts = request.app.state.scripts
    return scripts


async def get_stopping(request: Request) -> asyncio.Event:
    """Set when the coordinator stops: whoever streams an answer then ends it."""
    stopping: asyncio.Event = request.app.state.stopping
    return stopping


async def current_token(request: Request) -> Token | None:
    """The token of the request; None where there is none, which the API lets nowhere."""
    token: Token | None = getattr(request.state, "token", None)
    return token


@cache
def require(role: Role) -> Callable[[Request], Awaitable[Token]]:
    """A dependency that gives the request's token, and refuses one that may not do what needs
    `role`: `token: Annotated[Token, Depends(require(Role.SUBMIT))]`."""

    async def token_of(request: Request) -> Token:
        token = await current_token(request)
        if token is None:
            raise Problem("unauthorized", "send a token as `Authorization: Bearer tbk_...`")
        if not token.role.may(role):
            raise Problem(
                "forbidden",
                f"this needs a token of role {role.value}, and the role of {token.name!r} is "
                f"{token.role.value}",
            )
        return token

    return token_of


StoreOf = Annotated[Store, Depends(get_store)]
Reader = Annotated[Token, Depends(require(Role.READ))]
Submitter = Annotated[Token, Depends(require(Role.SUBMIT))]
