"""Recipes: how each schedule that a model misses is made from what is near."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.lookup.near_schedules import NearSchedules
from tunebook.cache.misses import Miss, MissReason
from tunebook.cache.records import Candidate, Measurement
from tunebook.cache.store import Store, TaskState
from tunebook.workers.recovery.recovery_trials import RecoveryTrials, recovery_trials
from tunebook.workers.rounds.near_candidates import NearCandidates

NearByKey = Mapping[ScheduleKey, tuple[NearSchedules, ...]]


@dataclass
class Recipe:
    """How one missing schedule is made: from what is near, with so many trials at most.

    Without anything near, only the key's own unverified records are verified.
    """

    key: ScheduleKey
    near: tuple[NearSchedules, ...]
    trials: RecoveryTrials
    candidates: list[Candidate] = field(default_factory=list)
    proposed: int = 0

    def next_size(self, task: TaskState) -> int:
        """How many trials its next round gets."""
        left = min(len(self.candidates), self.trials.most - self.proposed)
        if not self.trials.until_served:
            return left
        return 0 if task.served_seconds is not None else min(1, left)


class RecipeProposer:
    """Proposes the candidates of recipes."""

    def __init__(self, recipes: Sequence[Recipe]) -> None:
        self._recipes = {recipe.key: recipe for recipe in recipes}

    def of(self, task: TaskState) -> Recipe | None:
        """The recipe of a task, if it has one."""
        return self._recipes.get(task.key)

    def propose(self, task: TaskState, count: int) -> list[Candidate]:
        """None for a task without a recipe: its round was left by a search that died, or is another
        one's meanwhile, and only what it has stored is measured."""
        recipe = self._recipes.get(task.key)
        if recipe is None:
            return []
        given, recipe.candidates = recipe.candidates[:count], recipe.candidates[count:]
        recipe.proposed += len(given)
        return given

    def learn(self, key: ScheduleKey, results: list[tuple[Candidate, Measurement]]) -> None:
        """What a recovery measures is in the store for the next search to learn from."""


def near_misses(store: Store, misses: Sequence[Miss], *, emulated: bool, seed: int) -> NearByKey:
    """What is stored near each key that is missed, nearest first."""
    candidates = NearCandidates(store, emulated=emulated, seed=seed)
    return {miss.key: candidates.near(miss.key) for miss in misses}


def recipes_from(
    store: Store, near: NearByKey, *, emulated: bool, trials_per_task: int | None = None
) -> list[Recipe]:
    """One for each key that has something near, or an unverified record of its own; at most
    `trials_per_task` each (None: what recovery_trials.py says for each reason)."""
    recipes = []
    for key, found in near.items():
        if found or store.unverified_best(key, emulated=emulated):
            reason = found[0].reason if found else MissReason.UNVERIFIED
            recipes.append(Recipe(key, found, recovery_trials(reason, trials_per_task)))
    return recipes
