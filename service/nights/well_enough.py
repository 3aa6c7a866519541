"""Whether a model needs no more tuning on a target."""

from __future__ import annotations

from tunebook.service.nights.documents import JobDocument, Standing
from tunebook.service.nights.night_file import WellEnough


def well_enough(
    standing: Standing | None,
    earlier: JobDocument | None,
    expected_gain: float | None,
    settings: WellEnough,
) -> str:
    """Why a model may be skipped, in words; empty where it is to be tuned.

    `earlier` is the newest job for the same, `expected_gain` the share of its latency that another
    hour of tuning is expected to win, where somebody knows.
    """
    if standing is None or standing.misses or earlier is None or not earlier.tasks:
        return ""
    hits = f"all {standing.wanted} schedules hit"
    if all(task.exhausted for task in earlier.tasks):
        return f"{hits}, and the search finds nothing new to try"
    trials = sum(task.trials for task in earlier.tasks) / len(earlier.tasks)
    if trials >= settings.trials:
        return f"{hits}, and its tasks had {trials:.0f} trials on average"
    if expected_gain is not None and expected_gain < settings.gain:
        return f"{hits}, and another hour is expected to win {100 * expected_gain:.1f} %"
    return ""
