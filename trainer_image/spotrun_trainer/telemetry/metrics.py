"""The newest values of what a script measures, for the report to the operator."""

import logging
from collections.abc import Mapping
from typing import SupportsFloat

from spotrun.wire import MOST_METRICS, Metric, metric_name, metric_value

log = logging.getLogger(__name__)


class Metrics:
    """Keeps the newest values, and fetches them from their device only when they are reported."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[SupportsFloat, int]] = {}
        self._refused = set[str]()  # names of values that were no numbers

    def take(self, values: Mapping[str, SupportsFloat], step: int) -> None:
        """Take values of a step."""
        for name, value in values.items():
            # Detached from its graph, which would stay in memory as long.
            plain = value.detach() if hasattr(value, "detach") else value
            self._values[name] = (plain, step)

    def reported(self) -> tuple[Metric, ...]:
        """Return as many as are reported, as numbers.

        A value that is not a number is left out; the log says so, once per name.
        """
        numbers: dict[str, Metric] = {}
        for name, (value, step) in self._values.items():
            number, known = self._number(name, value), metric_name(name)
            if number is not None and known:
                numbers[known] = Metric(known, number, step)
        return tuple(numbers.values())[:MOST_METRICS]

    def _number(self, name: str, value: SupportsFloat) -> float | None:
        try:
            return metric_value(float(value))
        except Exception as error:  # a script's own type may raise anything
            if str(name) not in self._refused:
                self._refused.add(str(name))
                log.warning(
                    "the metric %r is not reported, because it is not a number: %s", name, error
                )
            return None
