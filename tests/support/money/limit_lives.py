"""Lives of many jobs under one SpendLimit, on a virtual clock; all begin in the same second.

Each job is decided by the whole chain, the namespace by the decision for it, and the operator dies
now and then: then it knows nothing but statuses. What was spent is metered by pods alone.
"""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random

from typing_extensions import override

from spotrun.api.names import FINALIZER_SPEND
from spotrun.money.units import UsdPerHour
from spotrun.policies.budget.spend.codec import read, write
from spotrun.policies.budget.spend.decide import decide
from spotrun.policies.budget.spend.facts import JobFacts, Limit, facts_of
from spotrun.policies.budget.spend.job_policies import must_ask
from spotrun.policies.chain import decide as decide_job
from spotrun.state.snapshot import JobSnapshot, SpendVerdict
from tests.support.jobs.builders import NOW, ON_CLAIM, a_spec
from tests.support.money.budget_lives import PricedCluster
from tests.support.money.shared_limits import a_limit

_ROUNDS = 2_000
_STEP_SECONDS = 2.0
"""Looks are no closer: fifty jobs always have something due."""


@dataclass
class LimitedCluster(PricedCluster):
    """A job that SpendLimits cover."""

    name: str = "job"
    verdict: SpendVerdict | None = None
    asks: bool = False
    said: SpendVerdict | None = None  # the answer that it was decided on last

    @override
    def snapshot(self) -> JobSnapshot:
        return replace(super().snapshot(), spend=self.verdict or SpendVerdict())

    def facts(self) -> JobFacts:
        facts = facts_of(
            self.spec,
            self.status,
            self.now,
            name=self.name,
            uid=self.name,
            version="1",
            created_at=NOW,
            finalizers=(str(FINALIZER_SPEND),),
        )
        asks = facts.asks or (self.asks and not facts.workers)
        granted = asks and self.verdict is not None and self.verdict.is_granted
        rate = UsdPerHour(self.usd_per_hour / 4)
        return replace(facts, asks=asks, is_granted=granted, worker_rate=rate)

    def look(self, crash_after: int | None) -> float:
        """Decide once, unless the job has to ask first; return when to look again."""
        if not self.pods and self.status.suspended_by and self.snapshot().spend == self.said:
            return float("inf")  # it is woken by another answer
        self.said = self.verdict
        job = self.snapshot()
        if not self.pods and must_ask(job, decide_job(job, self.now).status):
            self.asks = True
            return float("inf")
        return self.operate(crash_after=crash_after).wake_after_seconds


@dataclass
class SharedLife:
    """Jobs that have lived under one limit until none has workers and none may start."""

    limit: Limit
    jobs: list[LimitedCluster] = field(default_factory=list)
    most_running: int = 0

    def metered_usd(self) -> Fraction:
        """The money that pods have cost."""
        return sum((job.metered_usd() for job in self.jobs), Fraction(0))

    @property
    def overrun_usd(self) -> Fraction:
        """The money beyond the limit."""
        return max(self.metered_usd() - self.limit.usd.exact, Fraction(0))


def a_shared_life(number: int, limit_usd: str, random: Random, *, crashes: bool) -> SharedLife:
    """Play so many jobs that begin together, until the limit has stopped them all."""
    life = SharedLife(a_limit(limit_usd, onExceeded="Suspend", period="Total"))
    for one in range(number):
        size = random.randint(1, 4)
        place = {"checkpoint": ON_CLAIM} if random.random() < 0.5 else {}
        spec = a_spec(size, min=random.randint(1, size), **place)
        answers, price = random.random() < 0.7, Decimal(random.choice((2, 4, 8)))
        life.jobs.append(
            LimitedCluster(spec, answers=answers, usd_per_hour=price, name=f"job-{one:02}")
        )
    for _ in range(_ROUNDS):
        wait = min(_look_at_all(life), _crash(life, random) if crashes else float("inf"))
        if _is_at_rest(life):
            return life
        events = [event for job in life.jobs if (event := job.next_event()) is not None]
        now = life.jobs[0].now
        soonest = min([(event - now).total_seconds() for event in events] + [wait, 30.0])
        for job in life.jobs:
            job.now += timedelta(seconds=max(soonest, _STEP_SECONDS))
    raise AssertionError(f"jobs still run after {life.jobs[0].now - NOW}")


def _look_at_all(life: SharedLife) -> float:
    """Have every job looked at, and the namespace between two looks."""
    waits = [float("inf")]
    for job in life.jobs:
        job.live()
        waits.append(job.look(None))
    waits.append(_share(life))
    running = sum(any(pod.runs for pod in job.pods.values()) for job in life.jobs)
    life.most_running = max(life.most_running, running)
    return min(waits)


def _share(life: SharedLife) -> float:
    """Decide about the namespace, and store what it says of itself."""
    before = {job.name: job.verdict for job in life.jobs if job.verdict is not None}
    decision = decide([life.limit], [job.facts() for job in life.jobs], life.jobs[0].now, before)
    for job in life.jobs:
        job.verdict = decision.verdicts.get(job.name)
    life.limit = replace(life.limit, state=read(write(decision.states[life.limit.name])))
    return decision.wake_after_seconds


def _crash(life: SharedLife, random: Random) -> float:
    """Have the operator die now and then; who takes over shares out before a job is decided."""
    if random.random() < 0.05:
        for job in life.jobs:
            job.restart_operator()
            job.asks, job.verdict = False, None
        _share(life)
    return float("inf")


def _is_at_rest(life: SharedLife) -> bool:
    there = any(pod.metered for job in life.jobs for pod in job.pods.values())
    waits = all(job.verdict is not None and job.verdict.holds for job in life.jobs)
    return waits and not there
