"""The replay: runs the operator's own `decide` on a virtual clock, from event to event."""

from decimal import Decimal

from spotrun.api.names import Phase
from spotrun.api.spec.placement import Placement
from spotrun.policies.chain import decide
from spotrun.simulate.cluster import Cluster
from spotrun.simulate.market.virtual_market import VirtualMarket
from spotrun.simulate.outcome import Course
from spotrun.simulate.pools import Pools
from spotrun.simulate.scenario import Job, Observe, Rules
from spotrun.simulate.snapshot import Snapshots
from spotrun.simulate.training import Training
from spotrun.state.actions import Annotate
from spotrun.state.job_state import JobState
from spotrun.state.stored.training import Pace, Progress

_MOST_ROUNDS = 1000
"""The maximum number of decisions at one moment; with more, the decisions would never end."""


def play(job: Job, market: VirtualMarket, rules: Rules) -> Course:
    """Let the operator run a job on a market."""
    return _Replay(job, market, rules).play()


class _Replay:
    def __init__(self, job: Job, market: VirtualMarket, rules: Rules) -> None:
        self._job = job
        placement = job.spec.placement if job.spec is not None else Placement()
        self._cluster = Cluster(market, rules, placement.capacity)
        self._training = Training(job, rules, self._cluster)
        self._pools = Pools(self._cluster)
        self._snapshots = Snapshots(job, self._cluster, self._training)
        self._status = _known_before(job, rules)

    def play(self) -> Course:
        end = self._job.given_up_seconds
        wake_after_seconds = self._settle()
        while not self._is_over and self._cluster.now < end:
            self._advance(min(self._next_event(wake_after_seconds), end))
            wake_after_seconds = self._settle()
        finished = self._cluster.now if self._status.phase is Phase.SUCCEEDED else None
        return Course(self._cluster.close(), finished, self._training.lost_steps)

    @property
    def _is_over(self) -> bool:
        return self._status.phase in {Phase.SUCCEEDED, Phase.FAILED}

    def _settle(self) -> float:
        """Decide until there is no more to do at this moment; return when to decide again."""
        for _ in range(_MOST_ROUNDS):
            self._cluster.serve()
            self._training.follow(self._status)
            job = self._snapshots.look(self._status, self._pools.look())
            decision = decide(job, self._cluster.market.time(self._cluster.now), is_read=False)
            for action in decision.actions:
                self._cluster.do(action)
            acts = any(not isinstance(action, Annotate) for action in decision.actions)
            is_news = acts or _acted_upon(decision.status) != _acted_upon(self._status)
            self._status = decision.status
            if not is_news or self._is_over:
                return decision.wake_after_seconds
        raise RuntimeError(f"the decisions at one moment do not end: {self._status}")

    def _next_event(self, wake_after_seconds: float) -> float:
        now = self._cluster.now
        own = (self._cluster, self._training, self._pools)
        return min(now + wake_after_seconds, *(part.next_event() for part in own))

    def _advance(self, moment: float) -> None:
        self._training.advance(moment - self._cluster.now)
        self._cluster.now = moment


def _known_before(job: Job, rules: Rules) -> JobState:
    """Add the amount of work: published replays know it from the start, a cluster learns it."""
    if rules.observe is not Observe.MARKET:
        return JobState()
    return JobState(
        progress=Progress(step=0, total_steps=round(job.work_seconds)),
        pace=Pace(
            step_seconds=Decimal(f"{job.workers / job.max_workers:.6f}"), workers=job.max_workers
        ),
    )


def _acted_upon(status: JobState) -> tuple[object, ...]:
    """Return the parts of status that workers or the next decision depend on."""
    return status.phase, status.world, status.next_worker_id, status.settled, status.orders
