"""What Prometheus is told of workers and of the boards that they have."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tunebook.cache.errors import TunebookError
from tunebook.cache.queue.fleet import ServedFleet
from tunebook.service.api.metrics import BoundedLabels

_log = logging.getLogger(__name__)
# Jobs name classes as they like.
_BOARD_CLASSES = 200


class FleetMetrics(Collector):
    """Asks which workers and boards are there when somebody asks for metrics; where the database
    does not answer, what was read last stays."""

    def __init__(self, read: Callable[[], ServedFleet]) -> None:
        self._read = read
        self._last = ServedFleet(0, {})
        self._board_classes = BoundedLabels(_BOARD_CLASSES)

    def describe(self) -> list[Metric]:
        """Nothing: what there is does not depend on it, and the database is not asked for it."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All of it as it stands now."""
        try:
            self._last = self._read()
        except TunebookError as error:
            _log.warning("workers and boards are not up to date", extra={"error": str(error)})
        yield GaugeMetricFamily(
            "tunebook_workers", "Workers that are alive.", value=self._last.workers
        )
        boards = GaugeMetricFamily(
            "tunebook_boards",
            "Boards that workers have, by class; 0 of a class that open jobs wait for.",
            labels=["board_class"],
        )
        counts: dict[str, int] = {}
        for board_class, count in sorted(self._last.boards.items()):
            label = self._board_classes.of(board_class)
            counts[label] = counts.get(label, 0) + count
        for label, count in counts.items():
            boards.add_metric([label], count)
        yield boards
