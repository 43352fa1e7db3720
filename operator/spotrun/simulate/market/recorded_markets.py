"""Recorded markets for estimates: pools of one region, with their place and time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from importlib.resources import as_file, files
from itertools import groupby
from math import inf
from pathlib import Path

from spotrun.api.spec.placement import CapacityPolicy, Placement, Zones
from spotrun.simulate.market.trace import Trace, read
from spotrun.simulate.market.virtual_market import Prices
from spotrun.simulate.scenario import Job


@dataclass(frozen=True)
class RecordedMarket:
    """Pools to choose from, recorded at the same time."""

    traces: tuple[Trace, ...]

    @property
    def name(self) -> str:
        """The kind of nodes, and their region."""
        kinds = dict.fromkeys(trace.instance_type for trace in self.traces)
        zones = dict.fromkeys(trace.zone for trace in self.traces)
        return f"{', '.join(kinds)} in {', '.join(zones)}"

    @property
    def seconds(self) -> float:
        """The length of the shortest recording."""
        return min(trace.seconds for trace in self.traces)

    @property
    def period(self) -> tuple[datetime, datetime] | None:
        """The start and the end of the first pool's recording."""
        first = self.traces[0]
        if first.start is None:
            return None
        return first.start, first.start + timedelta(seconds=first.seconds)

    def lacks(self, job: Job, *, assume_capacity: bool) -> str | None:
        """Return why it cannot be used for a job; None if it can."""
        most = self._most_spot(job)
        if most < job.workers and not assume_capacity:
            return (
                f"at most {most} nodes at a time were probed, but the job wants "
                f"{job.workers} (--assume-capacity assumes that there were more)"
            )
        if job.work_seconds >= self.seconds:
            recorded, work = self.seconds / 3600, job.work_seconds / 3600
            return f"{recorded:.0f} h were recorded, but the work alone takes {work:.0f} h"
        return None

    def _most_spot(self, job: Job) -> float:
        """Return the maximum number of nodes that the recordings can show."""
        placement = job.spec.placement if job.spec is not None else Placement()
        if placement.capacity is CapacityPolicy.ON_DEMAND:
            return inf
        probed = [trace.capacity_probed for trace in self.traces]
        return max(probed) if placement.zones is Zones.SINGLE else sum(probed)


def shipped() -> list[RecordedMarket]:
    """Return the markets that come with spotrun, one for each kind of node and region."""
    with as_file(files("spotrun.simulate") / "data") as folder:
        traces = [read(path) for path in folder.glob("*.json")]
    traces.sort(key=lambda trace: (*_market(trace), trace.zone))
    return [RecordedMarket(tuple(pools)) for _, pools in groupby(traces, _market)]


def given(paths: Sequence[Path]) -> RecordedMarket:
    """Return the market that a user has recorded."""
    return RecordedMarket(tuple(read(path) for path in paths))


def priced(market: RecordedMarket, prices: Prices) -> RecordedMarket:
    """Return the same market with other prices."""
    spot, on_demand = prices.spot_usd_per_hour, prices.on_demand_usd_per_hour
    return RecordedMarket(
        tuple(
            replace(
                trace,
                spot_usd_per_hour=trace.spot_usd_per_hour if spot is None else spot,
                on_demand_usd_per_hour=(
                    trace.on_demand_usd_per_hour if on_demand is None else on_demand
                ),
            )
            for trace in market.traces
        )
    )


def _market(trace: Trace) -> tuple[str, str]:
    return trace.instance_type, trace.region
