"""The proposal of utilization: more workers, fewer, or the same; as HorizontalPodAutoscalers do.

    workers x utilization / target, rounded up; no change within the tolerance

Of several targets the one that asks for most workers counts. Workers that report nothing count as
idle when more workers would be proposed, and as fully used when fewer would be: missing reports are
no reason for a change.
"""

import math
from dataclasses import dataclass

from spotrun.policies.scaling.facts import Gauge

_ROUNDING = 1e-9  # ceil(4 x 0.35 / 0.7) is 2, whatever the floats say


@dataclass(frozen=True)
class Proposal:
    """The size that follows from utilization alone."""

    size: int
    gauge: Gauge  # the gauge that asks for this size

    @property
    def why(self) -> str:
        """The reason in words."""
        gauge = self.gauge
        return f"{gauge.resource.value} {gauge.usage or 0:.0%} of a target of {gauge.target:.0%}"

    @property
    def why_neither(self) -> str:
        """The reason why neither more nor fewer are proposed."""
        silent = self.gauge.silent
        if not silent:
            return "within its tolerance"
        return f"{silent} workers have not reported their use, so the size stays"

    @property
    def numbers(self) -> dict[str, str]:
        """The numbers for a record of the decision."""
        return {"utilization": f"{self.gauge.usage or 0:.2f}", "proposed": str(self.size)}


def proposal(gauges: tuple[Gauge, ...], running: int) -> Proposal | None:
    """Return the size that utilization asks for; None if the workers report too little."""
    asked = [(_asked(gauge, running), gauge) for gauge in gauges if gauge.reported]
    if not asked or not running:
        return None
    size, gauge = max(asked, key=lambda one: one[0])
    if size < running and len(asked) < len(gauges):
        return None  # a target without reports might need them
    return Proposal(size, gauge)


def _asked(gauge: Gauge, running: int) -> int:
    ratio = _ratio(gauge, assumed=None)
    if abs(ratio - 1) <= gauge.tolerance:
        return running
    if gauge.silent:
        cautious = _ratio(gauge, assumed=0.0 if ratio > 1 else 1.0)
        is_turned = (cautious > 1) is not (ratio > 1)
        if is_turned or abs(cautious - 1) <= gauge.tolerance:
            return running
        ratio = cautious
    return max(math.ceil(running * ratio - _ROUNDING), 1)


def _ratio(gauge: Gauge, *, assumed: float | None) -> float:
    reported, silent = sum(gauge.reported), 0 if assumed is None else gauge.silent
    return (reported + silent * (assumed or 0.0)) / (len(gauge.reported) + silent) / gauge.target
