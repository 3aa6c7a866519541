"""What a board server tells its tracker of itself.

Anybody can register at a tracker, and what one of them tells makes the others no less readable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

_SERVER = "server:"


@dataclass(frozen=True)
class RegisteredBoard:
    """A board that holds a connection to the tracker.

    The fields after `port` are told by Tunebook's server only: its own id, the board's name, the
    server's process, how often it has said that it lives, whether it serves a session now, how
    many cores it may use, what code it runs (CPU features by LLVM's names, none where it tells
    none, and the triple), and what tells its kernel from every other (`boot_id`).
    """

    board_class: str
    host: str
    port: int
    server_id: str | None = None
    name: str | None = None
    pid: int | None = None
    beat: int = 0
    serving: bool = False
    cores: int | None = None
    features: frozenset[str] = frozenset()
    mtriple: str = ""
    boot: str = ""

    @property
    def label(self) -> str:
        """What records call it: its name, and where it tells none its address."""
        return self.name or f"{self.host}:{self.port}"

    @property
    def identity(self) -> str:
        """What tells its server's process from one that is started in its place."""
        return self.server_id or f"{self.host}:{self.port}"


class _Registration(BaseModel):
    """A server as it is registered; TVM's own tells nothing but class and address."""

    key: str
    addr: tuple[str, int]
    tunebook: dict[str, Any] = Field(default_factory=dict)


_BOARD = TypeAdapter(RegisteredBoard)


def read_registrations(told: object) -> tuple[RegisteredBoard, ...]:
    """The boards of a tracker's summary, without those that cannot be read. Raises TypeError for
    what is no list of servers."""
    if not isinstance(told, list):
        raise TypeError("its servers are no list")
    read = map(_read, told)
    return tuple(one for one in read if one is not None)


def _read(told: object) -> RegisteredBoard | None:
    try:
        registration = _Registration.model_validate(told)
        host, port = registration.addr
        known = {
            "board_class": registration.key.removeprefix(_SERVER),
            "host": host,
            "port": port,
            "server_id": registration.tunebook.get("id"),
        }
        return _BOARD.validate_python({**registration.tunebook, **known})
    except ValidationError:
        return None
