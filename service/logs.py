"""Logs of the coordinator: one JSON object a line, with what the event is about as members."""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime, timezone

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# What uvicorn adds for terminals.
_LEFT_OUT = frozenset({"color_message"})
_LONGEST_VALUE = 2_000


class JsonFormatter(logging.Formatter):
    """An event as one line of JSON: time in UTC, level, logger, message, and whatever was given
    as `extra`; a traceback as `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in _STANDARD and name not in _LEFT_OUT and name not in told:
                told[name] = _shown(value)
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told)


def log_as_json(level: int = logging.INFO) -> None:
    """Sends all logs of this process to stderr as JSON, the web server's too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # What these tell of each start and stop, and of each request that a board's agent makes, says
    # nothing that our own lines do not.
    for name in ("uvicorn", "httpx"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _shown(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value)[:_LONGEST_VALUE]
