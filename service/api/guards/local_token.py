"""The token of whoever runs the coordinator, for commands on the same machine."""

from __future__ import annotations

import logging
import socket

from tunebook.cache.access.tokens import Role, Tokens
from tunebook.cache.remote.token_file import read_local_token, write_local_token

_log = logging.getLogger(__name__)

_NAME = "local command line"
_LONGEST_NAME = 100


def leave_local_token(tokens: Tokens, port: int) -> None:
    """Leaves a token of role admin in this user's data folder, for the coordinator at this port.

    The one that lies there from the last time stays while it is good. Where none can be left, the
    log says so, and commands need `TUNEBOOK_TOKEN` as on any other machine.
    """
    lying = read_local_token(f"http://127.0.0.1:{port}")
    known = None if lying is None else tokens.authenticate(lying)
    if known is not None and known.revoked_at is None and known.role is Role.ADMIN:
        return
    made = tokens.create(f"{_NAME} on {socket.gethostname()}"[:_LONGEST_NAME], Role.ADMIN)
    try:
        path = write_local_token(port, made.secret)
    except OSError as error:
        tokens.revoke(made.token.id)
        _log.warning(
            "no token could be left for commands on this machine: they need TUNEBOOK_TOKEN",
            extra={"error": str(error)},
        )
        return
    _log.info("left a token for commands on this machine", extra={"file": str(path)})
