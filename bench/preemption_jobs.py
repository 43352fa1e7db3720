"""A training job in simulated time, and what the operator would know about it."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

from spotrun.money.shares import Resources
from spotrun.money.units import UsdPerHour
from spotrun.policies.placement.queueing.preemption import Held, Victim
from spotrun.policies.report.interruption_price import CHANGE_SECONDS, shrink_usd, suspension_usd
from spotrun.state.job_state import JobState, World
from spotrun.state.stored.cost import Cost
from spotrun.state.stored.training import AcknowledgedCheckpoint, Pace, Progress

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Plan:
    """A job as its user submits it."""

    name: str
    priority: int
    arrives: float
    least: int
    most: int
    gpus: int  # of a worker
    work: float  # worker-seconds
    save_every: float  # seconds of training
    save_seconds: float
    restart_seconds: float
    changes_in_process: bool


@dataclass
class Job:
    """A job in progress."""

    plan: Plan
    nodes: list[int] = field(default_factory=list)  # the nodes of its workers, the newest last
    leaving: int = 0  # the number of these that are leaving: they no longer train
    done: float = 0.0
    unsaved_work: float = 0.0
    unsaved_seconds: float = 0.0  # training since the last save
    seen_at: float = 0.0
    stalls_until: float = 0.0
    changed_at: float = 0.0
    grows_at: float = 0.0
    placed_at: float | None = None  # the last time
    waited: float = 0.0
    queued_at: float = 0.0
    has_begun: bool = False
    wasted: float = 0.0  # GPU-seconds
    held: float = 0.0
    version: int = 0

    @property
    def size(self) -> int:
        return len(self.nodes) - self.leaving

    def waste(self, seconds: float, workers: int) -> None:
        self.wasted += seconds * workers * self.plan.gpus

    def advance(self, now: float) -> None:
        """Train until now, with a save whenever one is due."""
        self.held += (now - self.seen_at) * len(self.nodes) * self.plan.gpus
        trained = max(now - max(self.seen_at, self.stalls_until), 0.0)
        self.seen_at = now
        if not self.size or not trained:
            return
        self.done += trained * self.size
        self.unsaved_seconds += trained
        self.unsaved_work += trained * self.size
        if self.unsaved_seconds >= self.plan.save_every:
            self.unsaved_seconds %= self.plan.save_every
            self.unsaved_work = self.unsaved_seconds * self.size

    def save(self) -> None:
        self.unsaved_work = self.unsaved_seconds = 0.0

    def stall(self, now: float, seconds: float) -> None:
        self.stalls_until = max(self.stalls_until, now) + seconds
        self.waste(seconds, self.size)

    @property
    def change_seconds(self) -> float:
        return CHANGE_SECONDS if self.plan.changes_in_process else self.plan.restart_seconds

    def ends_at(self) -> float:
        rest = max(self.plan.work - self.done, 0.0)
        return max(self.seen_at, self.stalls_until) + rest / self.size


def victim_of(job: Job) -> Victim:
    """Return what the operator knows about a job: its steps take a second each."""
    saved = AcknowledgedCheckpoint("saved", 0, EPOCH)
    state = JobState(
        progress=Progress(step=int(job.unsaved_seconds)),
        checkpoint=saved,
        pace=Pace(step_seconds=Decimal(1)),
        world=World(members=tuple(range(job.size)), is_active=True),
        cost=Cost(usd_per_hour=UsdPerHour(job.size * job.plan.gpus)),
    )
    held = tuple(Held(str(node), gpus_of(job.plan.gpus)) for node in reversed(job.nodes))
    smaller = tuple(range(job.plan.least, len(job.nodes)))
    price = shrink_usd(state, in_process=job.plan.changes_in_process)
    return Victim(job.plan.name, held, smaller, price, suspension_usd(state))


def gpus_of(number: int) -> Resources:
    return Resources(gpus=number)
