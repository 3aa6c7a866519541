"""The processes: search worker, board agent, local and emulated boards."""

from __future__ import annotations
