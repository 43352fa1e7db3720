"""Lives of jobs with a budget, on a virtual clock: the operator dies or is away for long.

Where agents do not answer, the last checkpoint never comes, and every worker takes all of its
grace to end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from typing_extensions import override

from spotrun.api.names import Phase
from spotrun.money.price_history import EVER, PriceHistory
from spotrun.money.units import UsdPerHour
from spotrun.state.snapshot import Node, PodEnd, Worker
from spotrun.wire import Ending, LastWords
from tests.support.jobs.builders import ON_CLAIM, a_spec
from tests.support.lives.simulated_cluster import GRACE_SECONDS, Cluster, SimPod
from tests.support.money.priced_nodes import QUARTER, WHOLE

_ROUNDS = 400
_GRACE = timedelta(seconds=GRACE_SECONDS)
Absence = tuple[float, float]
"""An absence of the operator: the minutes after workers were first told when to stop, and its
length."""


@dataclass
class PricedCluster(Cluster):
    """A cluster whose pods know when they got a node and when they ended; nodes have a price."""

    usd_per_hour: Decimal = Decimal(4)
    answers: bool = True
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

    @property
    def stop_at(self) -> datetime | None:
        """The end that workers were told last: they hear of every write."""
        return self.status.cost.stop_at

    @override
    def _follow(self, pod: SimPod) -> None:
        super()._follow(pod)
        if not self.answers:
            pod.ordered = 10**6  # no order for a checkpoint is followed
        if pod.end is None and self.stop_at is not None:
            self._leave_in_time(pod, self.stop_at)

    def _leave_in_time(self, pod: SimPod, stop_at: datetime) -> None:
        """End a worker like agents that hear nothing more: save and leave, or be killed by them."""
        if self.answers and self.now >= stop_at:
            if pod.step is not None:
                pod.committed = f"step-{pod.step}.g{pod.state_world}"
            words = LastWords(Ending.DEPARTED, checkpoint=pod.committed)
            pod.end = PodEnd(exit_code=0, words=words)
        elif self.now >= stop_at + _GRACE:
            pod.end = PodEnd(exit_code=143, words=LastWords(Ending.PREEMPTED))

    @override
    def next_event(self) -> datetime | None:
        moments = [super().next_event()]
        if self.stop_at is not None:
            moments += [self.stop_at, self.stop_at + _GRACE]
        return min((at for at in moments if at is not None and at > self.now), default=None)

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
        """The most that it may cost."""
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
    workers: int,
    limit_minutes: float,
    *,
    answers: bool,
    crashes: Sequence[int],
    on_exceeded: str,
    absences: Sequence[Absence] = (),
) -> PricedCluster:
    """Play it until the job stands still; the limit is what it costs in so many minutes."""
    rate = Decimal(workers)
    limit = rate * Decimal(str(round(limit_minutes, 3))) / 60
    budget = {"maxCostUsd": f"{limit:.6f}", "onExceeded": on_exceeded}
    spec = a_spec(workers, budget=budget, checkpoint=ON_CLAIM)
    cluster, published_at = PricedCluster(spec, answers=answers), None
    for number in range(_ROUNDS):
        cluster.live()
        published_at = published_at or (cluster.now if cluster.stop_at is not None else None)
        if published_at is not None and _is_away(cluster.now - published_at, absences):
            cluster.restart_operator()  # who comes back knows nothing but what is stored
            wait = timedelta(minutes=10)
        else:
            crash_after = crashes[number] if number < len(crashes) else None
            decision = cluster.operate(crash_after=crash_after)
            wait = timedelta(seconds=min(decision.wake_after_seconds, 60.0))
        is_over = cluster.status.phase in {Phase.SUSPENDED, Phase.FAILED}
        if is_over and not any(pod.metered for pod in cluster.pods.values()):
            return cluster
        event = cluster.next_event()
        waits = [wait] if event is None else [wait, event - cluster.now]
        cluster.now += max(min(waits), timedelta(milliseconds=10))
    raise AssertionError(f"it has not stopped: {cluster.status}")


def _is_away(age: timedelta, absences: Sequence[Absence]) -> bool:
    minutes = age / timedelta(minutes=1)
    return any(begin <= minutes < begin + length for begin, length in absences)
