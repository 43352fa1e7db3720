"""A collector of objects that only the leader knows for sure, limited to a number of them."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

Known = TypeVar("Known")


class OfTheLeader(Collector, Generic[Known]):
    """Metrics of known objects; a standby has none."""

    def __init__(
        self, known: Callable[[], Iterable[Known]], leads: Callable[[], bool], most: int
    ) -> None:
        self._known = known
        self._leads = leads
        self._most = most

    @override
    def collect(self) -> Iterator[Metric]:
        return self.metrics_of(list(self._known())) if self._leads() else iter(())

    def first(self, known: Iterable[Known]) -> Iterator[Known]:
        """Return the objects that get series of their own."""
        return islice(known, self._most)

    @abstractmethod
    def metrics_of(self, known: list[Known]) -> Iterator[Metric]:
        """Yield the metrics of the known objects."""
