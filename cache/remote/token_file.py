"""Tokens in files: one that somebody names, and the one that a coordinator leaves for the command
line of the user who runs it.

The latter is one file for each port of this machine, which nobody else may read. It is for
addresses of this machine only: to any other the token is never sent.
"""

from __future__ import annotations

import ipaddress
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import platformdirs

from tunebook.cache.errors import UsageError

TOKEN_VARIABLE = "TUNEBOOK_TOKEN"
# As service managers and containers hand secrets on.
TOKEN_FILE_VARIABLE = "TUNEBOOK_TOKEN_FILE"
_PORTS = {"http": 80, "https": 443}


def given_token(environment: Mapping[str, str]) -> str | None:
    """The token in TUNEBOOK_TOKEN, or in the file that TUNEBOOK_TOKEN_FILE names. Raises UsageError
    for a file that cannot be read."""
    if token := environment.get(TOKEN_VARIABLE):
        return token
    path = environment.get(TOKEN_FILE_VARIABLE)
    if not path:
        return None
    try:
        return Path(path).read_text(encoding="ascii").strip() or None
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or "it is no text"
        raise UsageError(
            f"the file {path} of {TOKEN_FILE_VARIABLE} cannot be read: {said}"
        ) from None


def token_path(port: int) -> Path:
    """The file for the coordinator at this port."""
    folder = platformdirs.user_data_path("tunebook", appauthor=False) / "local-tokens"
    return folder / f"{port}.token"


def read_local_token(server: str) -> str | None:
    """The token for the coordinator at this URL; None where it is not on this machine, or none of
    this user's has listened at that port."""
    parts = urlsplit(server)
    if not is_loopback(parts.hostname or ""):
        return None
    try:
        port = parts.port or _PORTS[parts.scheme]
        return token_path(port).read_text(encoding="ascii").strip() or None
    except (OSError, KeyError, ValueError):
        return None


def write_local_token(port: int, secret: str) -> Path:
    """Leaves the token for the coordinator at this port; nobody sees half of it, and nobody but
    this user any of it. Gives its file."""
    path = token_path(port)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Made with mode 0600, whatever the umask says.
    number, name = tempfile.mkstemp(prefix=f"{port}-", dir=path.parent)
    written = Path(name)
    try:
        with os.fdopen(number, "w", encoding="ascii") as file:
            file.write(secret + "\n")
            file.flush()
            os.fsync(file.fileno())
        written.replace(path)
    except BaseException:
        written.unlink(missing_ok=True)
        raise
    return path


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is of this machine and of no network."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
