"""The board server of this machine itself."""

from __future__ import annotations

import os
import sys

from tunebook.workers.boards.board_supervisor import ServerCommand


def host_server(num_cores: int) -> ServerCommand:
    """How to start a board server of this machine's own architecture."""
    environment = os.environ | {
        "TVM_NUM_THREADS": str(num_cores),
        # NumPy's threads would share the cores with the kernel that is measured.
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
    return ServerCommand(
        [sys.executable, "-m", "tunebook.workers.boards.board_server"], environment
    )
