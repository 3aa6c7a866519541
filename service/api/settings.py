"""What a coordinator is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass, field

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Limits:
    """How much one request, and one client, may ask for.

    Bodies that are read at once hold `held_bytes` at most; each has to arrive within `body_seconds`
    (of models and archives: each piece). `unknown_body_bytes` is for whoever shows no token.
    `answer_bytes` is what answers to look-ups take that are kept in memory.
    A rate is requests a second with a burst of so many at once; those of tokens are counted for
    each token, those of addresses for whoever shows none, or one that is not good.
    """

    body_bytes: int = 8 * 2**20
    unknown_body_bytes: int = 64 * 2**10
    held_bytes: int = 256 * 2**20
    answer_bytes: int = 256 * 2**20
    body_seconds: float = 60.0
    model_bytes: int = 2 * 2**30
    import_bytes: int = 2**30
    token_rate: float = 500.0
    token_burst: int = 2_000
    address_rate: float = 50.0
    address_burst: int = 500
    # Clients whose rates are kept in mind; beyond that those who asked longest ago are forgotten.
    rated_clients: int = 10_000


@dataclass(frozen=True)
class Settings:
    """What a coordinator is told when it starts.

    `names` are the host names under which it may be addressed; with `any_address` also every IP
    address, which no name server can redirect. `secure` says that browsers reach it by TLS, its own
    or a proxy's. `pipelines` are counted by name whenever they first ask.
    """

    names: tuple[str, ...] = LOOPBACK_NAMES
    any_address: bool = False
    secure: bool = False
    models: str | None = None
    pipelines: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    heartbeat_seconds: float = 15.0
    look_seconds: float = 5.0
    scrape_seconds: float = 2.0
