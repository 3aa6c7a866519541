"""Mending commands that run as they are printed: the cache leaves to us what it cannot know."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.likeness import NO_HINTS, LookupHints
from tunebook.cache.mending_trials import TRIALS_A_MISS
from tunebook.cache.misses import LookupAnswer, Miss
from tunebook.cache.queue.submissions import is_emulated
from tunebook.cache.records import Model
from tunebook.cache.remote.schedule_cache import ScheduleCache
from tunebook.cache.storage.database import parse_url

# The commands that need boards.
_ON_BOARDS = (["tunebook", "tune"], ["tunebook", "migrate"])
_SUBMIT = ["tunebook", "submit"]
_TRIALS = "--trials"
_OWN_MACHINE = "local"
DATABASE_VARIABLE = "TUNEBOOK_DATABASE_URL"
REDIS_VARIABLE = "TUNEBOOK_REDIS_URL"


@dataclass(frozen=True)
class Boards:
    """The boards that a command needs beside its target: a class, and its tracker if it has one."""

    board_class: str
    tracker: str | None = None


def named_boards(board_class: str | None) -> Boards | None:
    """The boards of a class that was named, as a command needs them: none for this machine; where
    the tracker of others is, only the user knows."""
    if board_class is None or board_class == _OWN_MACHINE:
        return None
    return Boards(board_class, None if is_emulated(board_class) else "HOST:PORT")


@dataclass(frozen=True)
class CommandOptions:
    """What the refused command was given and the mending one needs too; with a `server` it asked a
    coordinator, and else a database."""

    model: Path
    output: Path
    shapes: tuple[str, ...] = ()
    database: str | None = None
    boards: Boards | None = None
    layout: str | None = None
    server: str | None = None


def fill_in(command: str, options: CommandOptions, misses: int = 1) -> str:
    """The command that mends so many misses, with MODEL and OUT replaced and the options added,
    quoted for a shell. What a coordinator misses is mended by a job there, which recovers what it
    can before it searches."""
    placeholders = {"MODEL": str(options.model), "OUT": str(options.output)}
    words = [placeholders.get(word, word) for word in shlex.split(command)]
    if options.server is not None and words[:2] in _ON_BOARDS:
        words = _as_job(words, misses)
    for shape in options.shapes:
        words += ["--shape", shape]
    if options.layout is not None:
        words += ["--layout", options.layout]
    if options.boards is not None and words[:2] in (*_ON_BOARDS, _SUBMIT):
        words += ["--boards", options.boards.board_class]
        if options.boards.tracker is not None and words[:2] != _SUBMIT:
            words += ["--tracker", options.boards.tracker]
    if options.server is not None:
        words += ["--server", options.server]
    if options.database is not None:
        words += ["--db", options.database]
    return shlex.join(words)


def _as_job(words: Sequence[str], misses: int) -> list[str]:
    """The job at a coordinator that does what a command would do with a database; `migrate` says
    of no trials how many."""
    given = [_TRIALS if word == "--more" else word for word in words[2:]]
    if _TRIALS not in given:
        given += [_TRIALS, str(TRIALS_A_MISS * misses)]
    return [*_SUBMIT, *given]


def fill_in_all(misses: Sequence[Miss], options: CommandOptions) -> tuple[Miss, ...]:
    """The misses with commands that can be run, each for all misses that it is the command of."""
    counts = Counter(miss.mending_command for miss in misses)
    filled = {command: fill_in(command, options, count) for command, count in counts.items()}
    return tuple(replace(miss, mending_command=filled[miss.mending_command]) for miss in misses)


def database_to_name(given: str | None) -> str | None:
    """What --db has to say: nothing for the default and for what the environment says anyway, and
    no password."""
    if given is None or given == os.environ.get(DATABASE_VARIABLE):
        return None
    return parse_url(given).render_as_string() if "://" in given else given


class MendableCache:
    """A cache whose misses come with commands that can be run; keeps its latest answer."""

    def __init__(self, cache: ScheduleCache, options: CommandOptions) -> None:
        self._cache = cache
        self._options = options
        self.answer = LookupAnswer({}, ())

    def find_model(self, digest: str, shapes: str, target: str, compiler: str) -> Model | None:
        """See Store.find_model."""
        return self._cache.find_model(digest, shapes, target, compiler)

    def lookup(
        self,
        keys: Sequence[ScheduleKey],
        *,
        accept_emulated: bool = False,
        hints: LookupHints = NO_HINTS,
    ) -> LookupAnswer:
        """See Store.lookup."""
        found = self._cache.lookup(keys, accept_emulated=accept_emulated, hints=hints)
        self.answer = replace(found, misses=fill_in_all(found.misses, self._options))
        return self.answer
