"""What a board server tells its tracker of itself.

Anybody can register at a tracker, and what one of them tells makes the others no less readable.
"""

from __future__ import annotations

from pydantic import BaseModel, Field, ValidationError

_SERVER = "server:"


class ToldByServer(BaseModel):
    """What Tunebook's board server tells beside its address, of itself and of its board."""

    id: str | None = None
    name: str | None = None
    pid: int | None = None
    beat: int = 0
    serving: bool = False
    cores: int | None = None
    features: tuple[str, ...] = ()
    mtriple: str = ""
    boot: str = ""


class Registration(BaseModel):
    """A server as it is registered; TVM's own tells nothing but class and address."""

    key: str
    addr: tuple[str, int]
    tunebook: ToldByServer = Field(default_factory=ToldByServer)

    @property
    def board_class(self) -> str:
        return self.key.removeprefix(_SERVER)


def read_registrations(told: object) -> tuple[Registration, ...]:
    """The servers of a tracker's summary, without those that cannot be read. Raises TypeError for
    what is no list of servers."""
    if not isinstance(told, list):
        raise TypeError("its servers are no list")
    read = map(_registration, told)
    return tuple(one for one in read if one is not None)


def _registration(told: object) -> Registration | None:
    try:
        return Registration.model_validate(told)
    except ValidationError:
        return None
