"""Lives of jobs with a budget, on a virtual clock: the operator dies, agents may not answer.

Where they do not, the last checkpoint never comes and every worker takes all of its grace to end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from typing_extensions import override

from spotrun.api.names import Phase
from spotrun.decide.snapshot import Node, Worker
from spotrun.money.prices import EVER, PriceHistory
from spotrun.money.units import UsdPerHour
from tests.decide_builders import ON_CLAIM, a_spec
from tests.decide_cluster import Cluster, SimPod
from tests.priced_nodes import QUARTER, WHOLE

_ROUNDS = 400


@dataclass
class PricedCluster(Cluster):
    """Its pods know when they got their node and when they ended; its nodes have a price."""

    usd_per_hour: Decimal = Decimal(4)
    scheduled: dict[str, datetime] = field(default_factory=dict)
    ended: dict[str, datetime] = field(default_factory=dict)

    @override
    def live(self) -> None:
        super().live()
        for pod in self.pods.values():
            if pod.node is not None:
                self.scheduled.setdefault(pod.uid, self.now)
            if pod.end is not None:
                self.ended.setdefault(pod.uid, self.now)

    @override
    def _worker(self, pod: SimPod) -> Worker:
        worker = super()._worker(pod)
        times = {
            "scheduled_at": self.scheduled.get(pod.uid),
            "ended_at": self.ended.get(pod.uid),
            "requests": QUARTER,
        }
        node = worker.node and self._priced(worker.node)
        return replace(worker, pod=replace(worker.pod, **times), node=node)  # type: ignore[arg-type]

    def _priced(self, node: Node) -> Node:
        price = PriceHistory(((EVER, UsdPerHour(self.usd_per_hour)),))
        return replace(node, prices=price, allocatable=WHOLE)

    @property
    def limit_usd(self) -> Fraction:
        """What it may cost."""
        budget = self.spec.budget
        assert budget is not None, "it has one"
        assert budget.max_cost_usd is not None, "which is a sum"
        return Fraction(budget.max_cost_usd)

    def metered_usd(self) -> Fraction:
        """A quarter of a node for every pod, as long as it had it."""
        times = (self.ended.get(uid, self.now) - at for uid, at in self.scheduled.items())
        hours = sum((Fraction(time // timedelta(microseconds=1)) for time in times), Fraction(0))
        return hours / 3_600_000_000 * Fraction(self.usd_per_hour) / 4


def a_life(
    workers: int, limit_minutes: float, *, answers: bool, crashes: Sequence[int], on_exceeded: str
) -> PricedCluster:
    """Play it until the job stands still; the limit is what it costs in so many minutes."""
    rate = Decimal(workers)
    limit = rate * Decimal(str(round(limit_minutes, 3))) / 60
    budget = {"maxCostUsd": f"{limit:.6f}", "onExceeded": on_exceeded}
    cluster = PricedCluster(a_spec(workers, budget=budget, checkpoint=ON_CLAIM))
    for number in range(_ROUNDS):
        cluster.live()
        if not answers:
            for pod in cluster.pods.values():
                pod.ordered = 10**6  # no order for a checkpoint is followed
        decision = cluster.operate(crash_after=crashes[number] if number < len(crashes) else None)
        if cluster.status.phase in {Phase.SUSPENDED, Phase.FAILED} and not cluster.pods:
            return cluster
        waits = [timedelta(seconds=min(decision.again_seconds, 60.0))]
        if (event := cluster.next_event()) is not None:
            waits.append(event - cluster.now)
        cluster.now += max(min(waits), timedelta(milliseconds=10))
    raise AssertionError(f"it has not stopped: {cluster.status}")
