"""The closed loop: a sizer chooses the number of workers for a virtual cluster and training.

Nodes come and go by the rules of the replay (`spotrun.simulate.cluster`): a new one is paid for ten
minutes before its worker trains. Workers that train continue meanwhile, and stall only during the
change itself.
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
    """A job's work, and its minimum and maximum of workers."""

    load: Load
    total_steps: int = 21_600  # 96 h for one worker of the linear curve
    least: int = 1
    most: int = 16
    given_up_after_seconds: float = 30 * 86_400.0

    @property
    def microbatches(self) -> int:
        """The microbatches of a step; they do not depend on the load."""
        return self.load.curves[0][1].microbatches

    @property
    def samples(self) -> int:
        """The samples of a step."""
        return self.microbatches * SAMPLES_PER_MICROBATCH

    @property
    def sizes(self) -> tuple[int, ...]:
        """All allowed sizes."""
        return tuple(range(self.least, self.most + 1))


@dataclass(frozen=True)
class Look:
    """The facts that a sizer may see."""

    now: float
    training: int  # workers that train
    unready: int  # workers that do not train yet
    placed: int  # workers with a node
    waiting: int  # workers that wait for a node
    world: int  # the number of the world
    steps_here: int  # steps done in this world
    recent: Recent | None
    remaining_steps: int
    offered: int  # nodes that the market offers in total: our policy does not use it
    usd_per_hour: float
    life_seconds: float | None  # life of a node, as the operator learns it; None: it is never taken


@dataclass(frozen=True)
class Resize:
    """A change of the wanted size."""

    at: float
    before: int
    after: int


class Sizer(Protocol):
    """A policy that chooses the number of workers of a job."""

    stall_seconds: float  # stall of the training at a change
    keeps_state: bool  # after a loss the others continue from the last step
    is_gang: bool  # it trains only with exactly the wanted number
    every_seconds: float  # how often it is asked

    def wanted(self, look: Look) -> int:
        """Return the wanted number of workers."""


@dataclass(frozen=True)
class Result:
    """The outcome of a run."""

    usd: float
    hours: float  # infinite: given up
    resizes: Sequence[Resize]
    changes: int  # of the job's load and of its market, including the start
    interruptions: int

    def objective(self, hour_worth_usd: float) -> float:
        """Return the cost plus the value of the hours."""
        return self.usd + hour_worth_usd * self.hours if self.hours < inf else inf


def play(task: Task, place: Place, sizer: Sizer, rules: Rules, seed: int) -> Result:
    """Run a task in a place with a sizer."""
    return _Loop(task, place, sizer, rules, seed).play()


class _Loop:
    def __init__(self, task: Task, place: Place, sizer: Sizer, rules: Rules, seed: int) -> None:
        self._task, self._place, self._sizer = task, place, sizer
        self._cluster = Cluster(place.market, rules)
        self._pools = Pools(self._cluster)
        self._training = Training(task.load, task.total_steps, rules.checkpoint_seconds, seed)
        self._wanted, self._num_made = 0, 0
        self._members: list[int] = []  # ids of the workers that train
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
        """Release workers whose nodes were taken; the others continue if they can."""
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
        """Request workers, let ready ones join, and release those that are too many.

        Return False if there is a world to enter at the end of the present step.
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
        """Return the workers: first those that train, then the others by when they will."""
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
        """Return how often the number of offered nodes changed, as far as the job is affected."""
        pool, most = self._place.pool, self._task.most
        changes, moment = 0, 0.0
        while (following := pool.next_change(moment)) < self._cluster.now:
            before, after = (min(pool.offer(at).nodes, most) for at in (moment, following))
            changes += before != after
            moment = following
        return changes
