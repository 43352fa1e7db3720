"""Per-job numbers, read from status at each scrape.

So no counter falls when the operator restarts, and an unknown figure has no series.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Generic, NamedTuple, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from spotrun.api.names import Choice

Known = TypeVar("Known")
Value = str | Decimal | float | None
"""A number from status, perhaps as text; None: unknown."""


class Figure(NamedTuple, Generic[Known]):
    """A number that can be read of a job, with its name and help text."""

    name: str
    text: str
    is_counter: bool
    of: Callable[[Known], Value]


def by_phase(
    name: str, text: str, phases: Iterable[Choice], found: Iterable[Choice | None]
) -> GaugeMetricFamily:
    """Return how many are in each phase, zeros included."""
    tally = Counter(found)
    family = GaugeMetricFamily(name, text, labels=("phase",))
    for phase in phases:
        family.add_metric((phase.value,), tally[phase])
    return family


def families(
    figures: Iterable[Figure[Known]],
    labels: Sequence[str],
    known: Iterable[tuple[Sequence[str], Known]],
    *,
    prefix: str = "spotrun_trainingjob",
) -> Iterator[Metric]:
    """Yield one family for each figure; `known` pairs labels' values with the jobs."""
    every = list(known)
    for figure in figures:
        kind = CounterMetricFamily if figure.is_counter else GaugeMetricFamily
        family = kind(f"{prefix}_{figure.name}", figure.text, labels=labels)
        for values, one in every:
            number = figure.of(one)
            if number is not None:
                family.add_metric(values, float(number))
        yield family
