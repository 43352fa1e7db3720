"""The spread of several replays of one job."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import median


@dataclass(frozen=True)
class Spread:
    """The minimum, median and maximum; None: that replay did not end, or there is no value."""

    least: float | None
    middle: float | None
    most: float | None

    @classmethod
    def of(cls, values: Sequence[float | None]) -> "Spread":
        """Return the spread of values; None counts as more than any number."""
        known = [inf if value is None else float(value) for value in values] or [inf]
        figures = (min(known), median(known), max(known))
        return cls(*(None if figure == inf else round(figure, 6) for figure in figures))

    def shown(self, digits: int, *, unknown: str = "-") -> tuple[str, str, str]:
        """Return all three with this number of decimal places."""
        least, middle, most = (
            unknown if figure is None else f"{round(figure, digits) + 0.0:,.{digits}f}"
            for figure in (self.least, self.middle, self.most)
        )
        return least, middle, most
