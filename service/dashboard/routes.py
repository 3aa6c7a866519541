"""The addresses of the pages, each of which only shows, but for signing in and out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

from tunebook.cache.access.tokens import Role
from tunebook.cache.errors import TunebookError
from tunebook.cache.statistics.lookup_counts import Window
from tunebook.cache.storage.moments import now
from tunebook.cache.store import Store
from tunebook.service.api.guards.dependencies import StoreOf, get_settings
from tunebook.service.api.problems.problem_types import PROBLEM_TYPES
from tunebook.service.api.problems.problems import Problem, problem_of
from tunebook.service.api.settings import Settings
from tunebook.service.dashboard.asked import Asked
from tunebook.service.dashboard.board_table import board_table
from tunebook.service.dashboard.hit_rate_page import hit_rate_page
from tunebook.service.dashboard.job_rows import job_rows
from tunebook.service.dashboard.remembered_rates import RememberedRates
from tunebook.service.dashboard.rendering import render
from tunebook.service.dashboard.signing_in import (
    SESSION_LIFETIME,
    Cookies,
    form_code,
    new_visitor,
    own_address,
    read_form,
)
from tunebook.service.dashboard.static_files import static_files

_log = logging.getLogger(__name__)

# The addresses of files change with their content.
_FOR_EVER = "public, max-age=31536000, immutable"
_SEE_OTHER = 303


class PageRoute(APIRoute):
    """A route whose problems are pages too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def answer_with_pages(request: Request) -> Response:
            try:
                return await answer(request)
            except Problem as problem:
                return _problem_page(problem)
            except TunebookError as error:
                return _problem_page(problem_of(error))

        return answer_with_pages


router = APIRouter(route_class=PageRoute, include_in_schema=False)

SettingsOf = Annotated[Settings, Depends(get_settings)]


async def get_rates(request: Request) -> RememberedRates:
    """The hit rates that all who look share."""
    rates: RememberedRates = request.app.state.hit_rates
    return rates


@router.get("/")
def show_hit_rate(
    request: Request,
    store: StoreOf,
    settings: SettingsOf,
    remembered: Annotated[RememberedRates, Depends(get_rates)],
) -> Response:
    """The hit-rate page."""
    secret = Cookies(secure=settings.secure).session(request)
    signed_in = store.sessions.find(secret, now())
    if signed_in is None:
        return _to_sign_in(request)
    moment = now()
    rates = {window: remembered.of(window, moment) for window in Window}
    jobs = job_rows(store)
    asked = Asked.read(request.query_params)
    page = hit_rate_page(store, rates, asked, jobs, moment, _address(request, settings))
    return render(
        "hit_rate.html", page=page, jobs=jobs, signed_in=signed_in, csrf=form_code(secret)
    )


@router.get("/running-jobs")
def show_running_jobs(request: Request, store: StoreOf, settings: SettingsOf) -> Response:
    """The part of the page that moves, by itself."""
    secret = Cookies(secure=settings.secure).session(request)
    if store.sessions.find(secret, now()) is None:
        return _to_sign_in(request)
    return render("jobs.html", jobs=job_rows(store))


@router.get("/boards")
def show_boards(request: Request, store: StoreOf, settings: SettingsOf) -> Response:
    """The boards, which the page asks for again by itself."""
    secret = Cookies(secure=settings.secure).session(request)
    signed_in = store.sessions.find(secret, now())
    if signed_in is None:
        return _to_sign_in(request)
    return render(
        "boards.html", table=board_table(store), signed_in=signed_in, csrf=form_code(secret)
    )


@router.get("/sign-in")
def show_sign_in(
    request: Request, store: StoreOf, settings: SettingsOf, next: str = "/"
) -> Response:
    """The form that asks for a token."""
    cookies = Cookies(secure=settings.secure)
    if store.sessions.find(cookies.session(request), now()) is not None:
        return RedirectResponse(own_address(next), _SEE_OTHER)
    return _sign_in_page(request, cookies, next)


@router.post("/sign-in")
async def sign_in(request: Request, store: StoreOf, settings: SettingsOf) -> Response:
    """Starts a session for whoever has a token that may read."""
    cookies = Cookies(secure=settings.secure)
    try:
        form = await read_form(request, cookies.visitor(request))
    except Problem as problem:
        return _sign_in_page(request, cookies, "/", problem.detail, problem.status)
    after = own_address(form.get("next", "/"))
    found = await run_in_threadpool(_start_session, store, form.get("token", "").strip())
    if isinstance(found, Problem):
        return _sign_in_page(request, cookies, after, found.detail, found.status)
    response = RedirectResponse(after, _SEE_OTHER)
    cookies.keep_session(response, found)
    return response


@router.post("/sign-out")
async def sign_out(request: Request, store: StoreOf, settings: SettingsOf) -> Response:
    """Ends the session, here and in the browser."""
    cookies = Cookies(secure=settings.secure)
    secret = cookies.session(request)
    signed_in = await run_in_threadpool(store.sessions.find, secret, now())
    if signed_in is not None:
        await read_form(request, secret)
        await run_in_threadpool(store.sessions.end, secret)
        _log.info("signed out", extra={"token": signed_in.token_id})
    response = RedirectResponse("/sign-in", _SEE_OTHER)
    cookies.forget_session(response)
    return response


@router.get("/static/{name:path}")
def show_file(name: str) -> Response:
    """A script, style or picture of the pages."""
    found = static_files().get(name)
    if found is None:
        raise Problem("not-found", "there is no such file; load the page again")
    return Response(
        found.content, media_type=found.media_type, headers={"Cache-Control": _FOR_EVER}
    )


def _start_session(store: Store, secret: str) -> str | Problem:
    """The secret of a new session, or why there is none."""
    token = store.tokens.authenticate(secret)
    if token is None:
        return Problem(
            "unauthorized", "This token is not known here. `tunebook token create` makes one."
        )
    if token.revoked_at is not None:
        return Problem("unauthorized", "This token was revoked. Ask for another one.")
    if not token.role.may(Role.READ):
        told = f"A token of role {token.role.value} may not read these pages. Ask for one that may."
        return Problem("forbidden", told)
    _log.info("signed in", extra={"token": token.id})
    return store.sessions.start(token.id, now(), SESSION_LIFETIME)


def _sign_in_page(
    request: Request, cookies: Cookies, after: str, refusal: str = "", status: int = 200
) -> Response:
    visitor = cookies.visitor(request) or new_visitor()
    response = render(
        "sign_in.html",
        status=status,
        refusal=refusal,
        next=after,
        csrf=form_code(visitor),
        signed_in=None,
    )
    cookies.keep_visitor(response, visitor)
    return response


def _to_sign_in(request: Request) -> Response:
    """Where somebody goes who is not signed in (any more)."""
    if request.headers.get("hx-request") == "true":
        # A script that asks for a part of a page is told to leave that page.
        return Response(status_code=401, headers={"HX-Redirect": "/sign-in"})
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    back = "" if asked == "/" else f"?next={quote(asked, safe='')}"
    return RedirectResponse(f"/sign-in{back}", _SEE_OTHER)


def _problem_page(problem: Problem) -> Response:
    shown: dict[str, Any] = {
        "title": PROBLEM_TYPES[problem.problem_type].title,
        "detail": problem.detail,
        "signed_in": None,
    }
    return render("problem.html", status=problem.status, **shown)


def _address(request: Request, settings: Settings) -> str:
    """Where builds reach this coordinator, as the browser did."""
    scheme = "https" if settings.secure else "http"
    return f"{scheme}://{request.headers.get('host', '')}"
