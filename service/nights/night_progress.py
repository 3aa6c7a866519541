"""How a night goes, and who is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tunebook.service.nights.documents import BudgetDocument, JobDocument


@dataclass(frozen=True)
class NightProgress:
    """How a night stands: its jobs with what they are called, and its budget."""

    jobs: tuple[tuple[str, JobDocument], ...]
    budget: BudgetDocument


class NightView(Protocol):
    """Who is told how a night goes."""

    def show(self, progress: NightProgress) -> None:
        """How it stands now, whether that changed or not."""

    def tell(self, text: str) -> None:
        """One thing that happened."""
