"""What whoever runs rounds is told meanwhile, and asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from tunebook.cache.store import ClaimedRound


@dataclass(frozen=True)
class RoundWatch:
    """What whoever runs rounds is told meanwhile, and asked; in several threads.

    Once a round is `out_of_time`, none of its trials is begun any more, and what is left of it goes
    back to the budget. Once `stop` is set, rounds are left as they are, for a successor.
    """

    on_trial: Callable[[ClaimedRound], None]
    out_of_time: Callable[[ClaimedRound], bool]
    stop: threading.Event
