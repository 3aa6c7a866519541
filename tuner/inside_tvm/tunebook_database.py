"""Tunebook's schedules inside TVM: a database for those who call TVM's passes themselves.

docs/inside-tvm.md says how it is used, and which pipelines ask for which keys.
"""

from __future__ import annotations

import threading
import warnings
from types import TracebackType
from typing import Any, NoReturn

from tunebook.cache.errors import UsageError
from tunebook.cache.misses import Miss
from tunebook.cache.records import Model
from tunebook.cache.remote.schedule_cache import ScheduleCache
from tunebook.cache.targets import Target
from tunebook.tuner.builds.on_miss import OnMiss, check_on_miss
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.inside_tvm.asked_schedules import AskedSchedules, Terms
from tunebook.tuner.inside_tvm.settled_schedules import settle, settle_answer
from tunebook.tuner.llvm_targets import resolve_target, tvm_target
from tunebook.tuner.tvm_compat import database_base, load_cpu_intrinsics, size_of_any_database

_Database: Any = database_base()


class ScheduleMissWarning(UserWarning):
    """Schedules that were asked for in vain, or perhaps never asked for, where it is no error."""


class TunebookDatabase(_Database):  # type: ignore[misc]
    """A `tvm.s_tir.meta_schedule.database.Database` that answers for one target, from a store or a
    coordinator.

    Use it where TVM takes a database (`compile_relax(database, ...)`), or around its passes:
    `with database.target, database: ...`. As TVM's own it holds for the thread that entered it,
    and the innermost one is asked. What TVM asks for in vain stays untuned, and is told on leaving
    the outermost `with` of this database: with `on_miss="error"` by one ScheduleMissError with all
    misses, with `"warn"` by a Python warning. `model` is the one that is compiled, where the
    caller knows it: then every task of it must have been asked for.

    Leaving raises also, whatever `on_miss` is: TargetError where TVM compiled for another target,
    ReplayError and UntrustedTraceError for a stored schedule that does not fit, ModelError for a
    function whose shapes are not fixed. An exception that is under way then becomes the cause.
    """

    __slots__ = ("_uses",)

    def __init__(
        self,
        cache: ScheduleCache,
        target: Target | str,
        on_miss: OnMiss = "error",
        *,
        accept_emulated: bool = False,
        model: Model | None = None,
    ) -> None:
        """Raises TargetError, and UsageError for a model that was split for another target or by
        another compiler."""
        check_on_miss(on_miss)
        resolved = resolve_target(target) if isinstance(target, str) else target
        if model is not None:
            _require_same(model, resolved)
        load_cpu_intrinsics()
        # A part of its own: what TVM holds of this object must not hold the object.
        self._uses = _Uses(Terms(cache, resolved, on_miss, accept_emulated, model))
        super().__init__(
            f_has_workload=_refuse,
            f_commit_workload=_refuse,
            f_commit_tuning_record=_refuse,
            f_get_top_k=_refuse,
            f_get_all_tuning_records=_refuse,
            f_query_tuning_record=self._uses.answer,
            f_size=size_of_any_database,
        )

    @property
    def target(self) -> Any:
        """TVM's object of the target, to compile for."""
        return tvm_target(self._uses.terms.target)

    @property
    def misses(self) -> tuple[Miss, ...]:
        """What was asked for in vain in the `with` that this thread is in, or else in the last."""
        return self._uses.latest.misses

    def __enter__(self) -> TunebookDatabase:
        super().__enter__()
        self._uses.enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        flying: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, flying, trace)
        for told in self._uses.leave(flying):
            warnings.warn(told, ScheduleMissWarning, stacklevel=2)


class _Uses:
    """The stays of threads in the `with` of one database."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._here = threading.local()
        self._last = AskedSchedules(terms)

    @property
    def latest(self) -> AskedSchedules:
        stays: list[AskedSchedules] = self._stays()
        return stays[0] if stays else self._last

    def enter(self) -> None:
        stays = self._stays()
        stays.append(stays[0] if stays else AskedSchedules(self.terms))
        self._last = stays[0]

    def leave(self, flying: BaseException | None) -> list[str]:
        """Settles up on leaving the outermost `with` only: compile_relax enters once more."""
        stays = self._stays()
        ended = stays.pop()
        return [] if stays else settle(ended, flying)

    def answer(self, module: Any, target: Any, function: str) -> Any:
        """What TVM asks; outside of any `with` (in a union of databases) each for itself."""
        stays = self._stays()
        if stays:
            return stays[0].record(module, target, str(function))
        self._last = AskedSchedules(self.terms)
        record = self._last.record(module, target, str(function))
        for told in settle_answer(self._last):
            warnings.warn(told, ScheduleMissWarning, stacklevel=2)
        return record

    def _stays(self) -> list[AskedSchedules]:
        if not hasattr(self._here, "stays"):
            self._here.stays = []
        return self._here.stays  # type: ignore[no-any-return]


def _require_same(model: Model, target: Target) -> None:
    if model.target != str(target):
        raise UsageError(f"the model was split for {model.target}, and not for {target}")
    if model.compiler != compiler_text():
        raise UsageError(f"the model was split by {model.compiler}, and this is {compiler_text()}")


def _refuse(*_: Any) -> NoReturn:
    raise UsageError(
        "a TunebookDatabase answers look-ups only; tune with `tunebook tune`, or with a database "
        "of TVM's that `tunebook import` reads then"
    )
