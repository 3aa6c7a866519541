"""Where the guest finds the board server: a folder with Tunebook's processes and nothing else.

The guest's Python cannot have the folder in which Tunebook is installed here: beside it lies what
was made for this machine's processor.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import platformdirs

from tunebook.cache.errors import BoardError

WORKERS = Path(__file__).absolute().parents[1]
SERVER_MODULE = "tunebook.workers.boards.board_server"


def guest_packages() -> Path:
    """The folder for the guest's module path, in the user's cache folder: its `tunebook/workers`
    is a link to the package that runs here, from a wheel or from a tree.

    Raises BoardError where it cannot be made.
    """
    identity = hashlib.sha256(str(WORKERS).encode()).hexdigest()[:16]
    folder = Path(platformdirs.user_cache_dir("tunebook"), f"guest-packages-{identity}")
    try:
        (folder / "tunebook").mkdir(parents=True, exist_ok=True)
        # By its name it can link to nothing else.
        with contextlib.suppress(FileExistsError):
            (folder / "tunebook" / "workers").symlink_to(WORKERS)
    except OSError as error:
        raise BoardError(
            f"the emulated board cannot make its folder {folder}: {error.strerror}; "
            "name a place for it by XDG_CACHE_HOME"
        ) from error
    return folder
