"""Traces made by hand, and what the check says against them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tunebook.cache.errors import UntrustedTraceError
from tunebook.cache.untrusted.traces import check_trace

BLOCK = ["GetSBlock", [], ["matmul", "main"], ["b0"]]


def refusal(trace: str) -> str:
    with pytest.raises(UntrustedTraceError) as error:
        check_trace(trace)
    assert "\n" not in str(error.value)
    return str(error.value)


def trace_of(*instructions: Any, decisions: Any = ()) -> str:
    return json.dumps([[BLOCK, *instructions], list(decisions)])
