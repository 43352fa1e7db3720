"""Metrics of the queues from which the leader works."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from spotrun.kube.workqueue.queue import WorkQueue


class Queues(Collector):
    """The lengths of the leader's queues; a standby has none."""

    def __init__(self, queues: Mapping[str, WorkQueue[Any]], leads: Callable[[], bool]) -> None:
        self._queues = queues
        self._leads = leads

    @override
    def collect(self) -> Iterator[Metric]:
        if not self._leads():
            return
        keys = GaugeMetricFamily(
            "spotrun_queue_keys", "Jobs and pools that wait for their turn.", labels=("queue",)
        )
        oldest = GaugeMetricFamily(
            "spotrun_queue_oldest_seconds",
            "Time for which the first in line has waited.",
            labels=("queue",),
        )
        for name, queue in self._queues.items():
            keys.add_metric((name,), queue.waiting())
            oldest.add_metric((name,), queue.oldest_seconds())
        yield from (keys, oldest)
