"""What a night came to, as people read it in a mail or beside a build: Markdown.

Names, reasons and logs come from files and other machines: none of them can end a table, open a
link or become HTML.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tunebook.service.durations import show_duration
from tunebook.service.nights.summary import (
    BudgetSummary,
    HitsSummary,
    HourSummary,
    JobSummary,
    NightSummary,
    Outcome,
    RegressionSummary,
)
from tunebook.service.output import printable, show_seconds

_LOG_LINES = 20
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&])")
_NOTHING = "-"
# How a coordinator says that nothing more is to be done.
_ENDED = {
    "trials": "the trials are spent",
    "time": "the time is over",
    "board-time": "the board time is over",
    "deadline": "the deadline was reached",
    "exhausted": "the search finds nothing new",
}


def show_summary(summary: NightSummary) -> str:
    """The whole summary; what there is nothing to tell of is left out."""
    parts = [
        f"# {_text(summary.night)}",
        _head(summary),
        "## Hit rate\n\n" + _hit_rates(summary),
        _section("Tuned", _tuned(_of(summary, Outcome.DONE, Outcome.CANCELLED))),
        _section("Regressed", _regressed(summary.regressions)),
        _section("Failed", _failed(summary.failed)),
        _section("Skipped", _skipped(_of(summary, Outcome.SKIPPED))),
        _section("Another hour", _another_hour(summary)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(summary: NightSummary) -> str:
    counted = [
        f"{len(found)} {outcome.value}" for outcome in Outcome if (found := _of(summary, outcome))
    ]
    noun = "job" if len(summary.jobs) == 1 else "jobs"
    lines = [f"{len(summary.jobs)} {noun}: {', '.join(counted)}."]
    lines.append(_budget(summary.budget))
    if summary.resumed:
        lines.append("The night was stopped and went on.")
    if summary.before_is_late:
        lines.append(
            "What the cache had before was looked up when the night was under way already."
        )
    return "\n".join(lines)


def _budget(budget: BudgetSummary) -> str:
    spent = [
        f"{budget.trials} of {budget.trials_limit} trials"
        if budget.trials_limit is not None
        else f"{budget.trials} trials",
        _of_limit(budget.seconds, budget.seconds_limit, "of work"),
        _of_limit(budget.board_seconds, budget.board_seconds_limit, "on boards"),
    ]
    told = f"Spent: {', '.join(spent)}."
    if budget.deadline is not None:
        told += f" Deadline: {_text(budget.deadline)}."
    if budget.over is not None:
        told += f" {_ENDED.get(budget.over, _text(budget.over)).capitalize()}."
    return told


def _of_limit(used: float, limit: float | None, what: str) -> str:
    share = show_duration(used) if limit is None else _share_of(used, limit)
    return f"{share} {what}"


def _share_of(used: float, limit: float) -> str:
    return f"{show_duration(used)} of {show_duration(limit)}"


def _hit_rates(summary: NightSummary) -> str:
    below = {one.name for one in summary.below}
    rows = []
    for one in summary.targets:
        notes = []
        if one.name in below:
            notes.append(f"below {_percent(summary.min_hit_rate or 0.0)}")
        if one.new_models:
            notes.append(f"{one.new_models} of its models new")
        rows.append((_text(one.name), _hits(one.before), _hits(one.after), ", ".join(notes)))
    return _table(("target", ">before", ">after", ""), rows)


def _tuned(jobs: Sequence[JobSummary]) -> str:
    rows = [
        (
            _model(job),
            _text(job.target),
            show_seconds(job.untuned_seconds),
            show_seconds(job.before_seconds),
            show_seconds(job.after_seconds),
            _NOTHING if job.trials is None else str(job.trials),
            _hits(job.after),
            _text(_ENDED.get(job.reason, job.reason)),
        )
        for job in jobs
    ]
    head = ("model", "target", ">untuned", ">before", ">after", ">trials", ">hits", "ended since")
    return _table(head, rows) if rows else ""


def _regressed(found: Sequence[RegressionSummary]) -> str:
    rows = [
        (
            _model(one),
            _text(one.target),
            one.measure,
            _percent(one.before) if one.measure == "hit-rate" else show_seconds(one.before),
            _percent(one.after) if one.measure == "hit-rate" else show_seconds(one.after),
        )
        for one in found
    ]
    return _table(("model", "target", "what", ">before", ">after"), rows) if rows else ""


def _failed(jobs: Sequence[JobSummary]) -> str:
    told = []
    for job in jobs:
        told.append(f"- {_model(job)} on {_text(job.target)}: {_text(job.reason)}")
        if job.log.strip():
            told.append(_indented(_fenced(job.log)))
    return "\n".join(told)


def _skipped(jobs: Sequence[JobSummary]) -> str:
    return "\n".join(f"- {_model(job)} on {_text(job.target)}: {_text(job.reason)}" for job in jobs)


def _another_hour(summary: NightSummary) -> str:
    if summary.another_hour is None:
        return ""
    rows = [
        (
            _model(one),
            _text(one.target),
            show_seconds(one.seconds),
            show_seconds(one.expected_seconds),
            _percent(1 - one.expected_seconds / one.seconds) if one.seconds else _NOTHING,
        )
        for one in summary.another_hour
    ]
    if not rows:
        return "Nothing more is expected to be won."
    return _table(("model", "target", ">now", ">expected", ">won"), rows)


def _of(summary: NightSummary, *outcomes: Outcome) -> list[JobSummary]:
    wanted = {outcome.value for outcome in outcomes}
    return [job for job in summary.jobs if job.outcome in wanted]


def _model(one: JobSummary | RegressionSummary | HourSummary) -> str:
    return _text(f"{one.model} ({one.shapes})" if one.shapes else one.model)


def _hits(hits: HitsSummary | None) -> str:
    return _NOTHING if hits is None else f"{hits.hits}/{hits.wanted} {_percent(hits.rate)}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _section(title: str, body: str) -> str:
    return f"## {title}\n\n{body}" if body else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; columns whose head starts with `>` stand to the right."""
    lines = [
        "| " + " | ".join(name.lstrip(">") for name in head) + " |",
        "|" + "|".join(" ---: " if name.startswith(">") else " --- " for name in head) + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
    return "\n".join(lines)


def _text(text: str) -> str:
    """Text as it is to be read, in one line."""
    return _SPECIAL.sub(r"\\\1", printable(" ".join(text.split())))


def _fenced(text: str) -> str:
    """The end of a log, in a fence that nothing in it closes."""
    lines = [printable(line.expandtabs()) for line in text.strip().splitlines()][-_LOG_LINES:]
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence, *lines, fence])


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
