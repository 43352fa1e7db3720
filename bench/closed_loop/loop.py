"""The closed loop: a sizer says how many workers, a virtual cluster and training do as it says.

Nodes come and go by the rules of the replay (`spotrun.simulate.cluster`): a new one is paid for ten
minutes before its worker trains. Whoever trains goes on meanwhile, and stands still only for the
stall of the change itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

from bench.closed_loop.curves import Load
from bench.closed_loop.markets import Place
from bench.closed_loop.training import Training
from spotrun.api.capacitypool import Capacity
from spotrun.policies.pool.interruption_rate import interruptions_per_hour
from spotrun.simulate.cluster import Cluster, Worker
from spotrun.simulate.outcome import Course, Outcome
from spotrun.simulate.pools import Pools
from spotrun.simulate.scenario import Job, Rules
from spotrun.state.actions import Create, Placed, Release
from spotrun_trainer.telemetry.meter import Recent

SAMPLES_PER_MICROBATCH = 8


@dataclass(frozen=True)
class Task:
    """A job's work, and its least and its most workers."""

    load: Load
    total_steps: int = 21_600  # 96 h for one worker of the linear curve
    least: int = 1
    most: int = 16
    given_up_after_seconds: float = 30 * 86_400.0

    @property
    def microbatches(self) -> int:
        """The microbatches of a step; a job has the same ones however its load changes."""
        return self.load.curves[0][1].microbatches

    @property
    def samples(self) -> int:
        """The samples of a step."""
        return self.microbatches * SAMPLES_PER_MICROBATCH

    @property
    def sizes(self) -> tuple[int, ...]:
        """All that are allowed."""
        return tuple(range(self.least, self.most + 1))


@dataclass(frozen=True)
class Look:
    """The facts that a sizer may see."""

    now: float
    training: int  # workers that make steps
    unready: int  # that do not yet
    placed: int  # that have a node
    waiting: int  # for a node
    world: int  # its number
    steps_here: int  # made in it
    recent: Recent | None
    remaining_steps: int
    offered: int  # by the market, in all: none of ours looks at it
    usd_per_hour: float
    life_seconds: float | None  # of a node, as the operator learns it; None: nobody takes it


@dataclass(frozen=True)
class Resize:
    """A sizer has changed its mind."""

    at: float
    before: int
    after: int


class Sizer(Protocol):
    """Says how many workers a job has."""

    stall_seconds: float  # of those who train, at a change
    keeps_state: bool  # those who are left after a loss go on from the last step
    is_gang: bool  # trains with exactly as many as it wants
    every_seconds: float  # it is asked

    def wanted(self, look: Look) -> int:
        """Return the number of workers that there should be."""


@dataclass(frozen=True)
class Result:
    """The outcome of a run."""

    usd: float
    hours: float  # infinite: given up
    resizes: Sequence[Resize]
    changes: int  # of what is true about the job and its market, the start among them
    interruptions: int

    def objective(self, hour_worth_usd: float) -> float:
        """Dollars, and what the hours are worth."""
        return self.usd + hour_worth_usd * self.hours if self.hours < inf else inf


def play(task: Task, place: Place, sizer: Sizer, rules: Rules, seed: int) -> Result:
    """Let a sizer run a task in a place."""
    return _Loop(task, place, sizer, rules, seed).play()


class _Loop:
    def __init__(self, task: Task, place: Place, sizer: Sizer, rules: Rules, seed: int) -> None:
        self._task, self._place, self._sizer = task, place, sizer
        self._cluster = Cluster(place.market, rules)
        self._pools = Pools(self._cluster)
        self._training = Training(task.load, task.total_steps, rules.checkpoint_seconds, seed)
        self._wanted, self._num_made = 0, 0
        self._members: list[int] = []  # worker ids of those who train
        self._resizes: list[Resize] = []

    def play(self) -> Result:
        cluster, training, due = self._cluster, self._training, 0.0
        while not training.is_complete and cluster.now < self._task.given_up_after_seconds:
            cluster.serve()
            self._bury()
            if cluster.now >= due:
                self._follow(self._sizer.wanted(self._look()))
                due = cluster.now + self._sizer.every_seconds
            is_settled = self._settle()
            training.advance(cluster.next_event(), due if is_settled else cluster.now)
            cluster.now = training.now
        return self._result()

    def _look(self) -> Look:
        cluster, training = self._cluster, self._training
        waiting = len(cluster.waiting())
        offer = self._place.pool.offer(cluster.now)
        return Look(
            now=cluster.now,
            training=training.size,
            unready=len(cluster.workers) - training.size,
            placed=len(cluster.workers) - waiting,
            waiting=waiting,
            world=training.world,
            steps_here=training.steps_here,
            recent=training.recent,
            remaining_steps=training.total_steps - training.done,
            offered=offer.nodes,
            usd_per_hour=float(offer.usd_per_hour),
            life_seconds=self._life_seconds(),
        )

    def _life_seconds(self) -> float | None:
        if self._place.capacity is not Capacity.SPOT:
            return None
        market, name = self._pools.look(), self._place.pool.name
        (known,) = (pool for pool in market.pools if pool.name == name)
        rate = interruptions_per_hour(known, market.pools)
        return 3600 / rate if rate else None

    def _follow(self, wanted: int) -> None:
        if self._wanted and wanted and wanted != self._wanted:
            self._resizes.append(Resize(self._cluster.now, self._wanted, wanted))
        self._wanted = wanted

    def _bury(self) -> None:
        """Let go of those whose nodes were taken; who is left goes on as it can."""
        cluster = self._cluster
        for worker in list(cluster.workers.values()):
            if worker.node is not None and worker.node.gone_at <= cluster.now:
                cluster.do(Release(worker.worker_id, worker.uid))
        left = [worker_id for worker_id in self._members if worker_id in cluster.workers]
        if len(left) == len(self._members):
            return
        if not left or not self._sizer.keeps_state:
            self._training.lose()
        self._members = [] if self._sizer.is_gang else left
        self._training.enter(len(self._members), self._sizer.stall_seconds)

    def _settle(self) -> bool:
        """Ask for workers, take in those who are ready, let go of those too many.

        False: at the end of the step that is under way there is a world to enter.
        """
        ranked = self._ranked()
        kept, surplus = ranked[: self._wanted], ranked[self._wanted :]
        self._release(worker for worker in surplus if worker.worker_id not in self._members)
        self._ask_for(self._wanted - len(kept))
        members = [worker.worker_id for worker in kept if worker.is_ready(self._cluster.now)]
        if self._sizer.is_gang and len(members) < self._wanted:
            members = []
        if members == self._members:
            return True
        if not self._training.is_between_steps:
            return False
        self._release(worker for worker in surplus if worker.worker_id in self._members)
        if not members:
            self._training.save()
        self._members = members
        self._training.enter(len(members), self._sizer.stall_seconds)
        return True

    def _ranked(self) -> list[Worker]:
        """Return the workers: those that train first, then those that will soonest."""
        inside = set(self._members)
        workers = self._cluster.workers.values()
        return sorted(workers, key=lambda w: (w.worker_id not in inside, w.ready_at, w.worker_id))

    def _ask_for(self, number: int) -> None:
        for _ in range(number):
            self._num_made += 1
            place = Placed(required=(self._place.pool.name,))
            self._cluster.do(Create(self._num_made, place=place))
        if number > 0:
            self._cluster.serve()

    def _release(self, workers: Iterable[Worker]) -> None:
        for worker in workers:
            self._cluster.do(Release(worker.worker_id, worker.uid))

    def _result(self) -> Result:
        finished = self._cluster.now if self._training.is_complete else None
        course = Course(self._cluster.close(), finished)
        job = Job(0.0, inf)
        outcome = Outcome.of("", course, job, self._place.market)
        return Result(
            usd=outcome.cost_usd,
            hours=inf if finished is None else finished / 3600,
            resizes=tuple(self._resizes),
            changes=1 + self._task.load.num_changes + self._changes_of_market(),
            interruptions=outcome.interruptions,
        )

    def _changes_of_market(self) -> int:
        """Return how often the nodes on offer changed, as far as it matters to this job."""
        pool, most = self._place.pool, self._task.most
        changes, moment = 0, 0.0
        while (following := pool.next_change(moment)) < self._cluster.now:
            before, after = (min(pool.offer(at).nodes, most) for at in (moment, following))
            changes += before != after
            moment = following
        return changes
