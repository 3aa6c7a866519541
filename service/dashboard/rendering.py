"""Templates into pages: everything is text unless a template wrote it, and nothing runs inline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tunebook.service.dashboard.static_files import static_address
from tunebook.service.dashboard.visible_text import one_line, visible

# Nothing is loaded from elsewhere, nothing runs that is no file of ours, and nobody frames a page.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    # `no-referrer` would hide the origin of our own forms from us.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    # A page that was signed out of is not to come back by the Back button.
    "Cache-Control": "no-store",
}
# Whatever of htmx evaluates text, writes styles, or keeps pages in the browser is off.
_HTMX_SETTINGS = {
    "allowEval": False,
    "allowScriptTags": False,
    "includeIndicatorStyles": False,
    "selfRequestsOnly": True,
    "historyCacheSize": 0,
    "refreshOnHistoryMiss": True,
}


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["one_line"] = one_line
    made.globals["static"] = static_address
    made.globals["htmx_settings"] = json.dumps(_HTMX_SETTINGS)
    return made


_TEMPLATES = _environment()


def render(template: str, /, status: int = 200, **shown: Any) -> HTMLResponse:
    """A page, with the headers that every page has."""
    text = _TEMPLATES.get_template(template).render(**shown)
    return HTMLResponse(text, status_code=status, headers=_HEADERS)
