"""The largest job, at its worst: every worker's number stands alone, and prices change all day."""

import gc
import time
import traceback
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal

from spotrun.api.capacitypool import Capacity
from spotrun.api.field_types.intervals import Ranges
from spotrun.api.names import Phase
from spotrun.api.status import MOST_AVOIDED, MOST_BLAMED_ONCE, Entry
from spotrun.money.ledger import Segment, cost
from spotrun.money.price_history import EVER, PriceHistory
from spotrun.money.shares import Resources
from spotrun.money.units import NO_USD, Usd, UsdPerHour
from spotrun.policies.chain import decide
from spotrun.state.actions import Create, Decision, Release
from spotrun.state.job_state import JobState, World
from spotrun.state.snapshot import Node, Worker
from spotrun.state.stored.failures import HeldBack, JoiningWorkers, Rejections, Restarts
from spotrun.state.stored.training import AcknowledgedCheckpoint, LocalCheckpoint
from tests.support.jobs.builders import NOW, JobBuilder, a_job, a_worker
from tests.support.jobs.large_jobs import arrived, with_all
from tests.support.jobs.stored_state import stored, text_of

WHOLE = Resources(Decimal(8), Decimal(2**33))
HALF = Resources(Decimal(4), Decimal(2**32))
FIRST = 100_000
MOST_CHANGES = 16  # as many as a pool or a node remembers
WORLD_NUMBER = 7
DAY = timedelta(days=1)
LOST_AT_ONCE = 3


@dataclass
class LargeLife:
    """A job of many workers, each on a node of its own; all were late once, all are held back.

    Each price is that of many nodes, and each node is told of a change at a moment of its own.
    At each change some nodes go, and their workers are replaced.
    """

    workers: int
    prices: int = 100
    changes_a_day: int = 100
    apart: bool = True  # else all nodes are told of a change at the same moment
    looks: tuple[float, ...] = (0.0, 2.0, 4.0)  # seconds after a change: lost, numbered, joined
    repeats: int = 1  # of each decision, of which the fastest counts: it is a pure function
    now: datetime = NOW
    decide_seconds: list[float] = field(default_factory=list)
    undecided: int = 0
    status_bytes: int = 0  # the most
    status: JobState = field(init=False)
    pods: dict[int, Worker] = field(init=False)
    _changes: list[list[tuple[datetime, UsdPerHour]]] = field(init=False)
    _starts: dict[int, datetime] = field(default_factory=dict)
    _ends: dict[int, datetime] = field(default_factory=dict)
    _round: int = 0

    def __post_init__(self) -> None:
        worker_ids = [FIRST + 89 * n + n % 7 for n in range(self.workers)]
        self._changes = [[(EVER, _usd(n, 0))] for n in range(self.prices)]
        self.pods = {}
        for worker_id in worker_ids:
            self._make(worker_id, NOW - timedelta(hours=1))
            self.pods[worker_id] = arrived(self.pods[worker_id], WORLD_NUMBER)
        self.status = _status(worker_ids, self.pods)

    def live(self, days: float) -> None:
        """Let the prices change, and decide each time and between."""
        for _ in range(int(days * self.changes_a_day)):
            self.now += DAY / self.changes_a_day
            self._round += 1
            self._change_prices()
            self._lose_some()
            at = self.now
            for seconds in self.looks:
                self._decide(at + timedelta(seconds=seconds))

    def spent(self) -> Usd:
        """Return what all workers have cost until the last decision, by the whole history."""
        return sum((cost([self._segment(n)], self.now).usd for n in self._starts), NO_USD)

    def snapshot(self) -> JobBuilder:
        """Return the job as it is now."""
        job = a_job(self.workers, min=1)
        job = replace(job, status=self.status)
        return with_all(job, [self.pods[worker_id] for worker_id in sorted(self.pods)])

    def _decide(self, now: datetime) -> None:
        self.now = now
        try:
            decision = self._timed(now)
        except Exception:  # whatever a policy trips over, it is the operator's mistake
            traceback.print_exc()
            self.undecided += 1
            return
        assert _sum(decision.status) >= _sum(self.status), "no stored sum falls"
        text = text_of(decision.status)
        self.status_bytes = max(self.status_bytes, len(text))
        self.status = decision.status
        self._act(decision)

    def _timed(self, now: datetime) -> Decision:
        """Decide on a status that was just read, and without a pause to look for cycles."""
        seconds = []
        for _ in range(self.repeats):
            job = replace(self.snapshot().snapshot(), status=stored(self.status))
            gc.disable()
            begun = time.process_time()
            decision = decide(job, now)
            seconds.append(time.process_time() - begun)
            gc.enable()
        self.decide_seconds.append(min(seconds))
        return decision

    def _act(self, decision: Decision) -> None:
        for action in decision.actions:
            match action:
                case Create(worker_id):
                    self._make(worker_id, self.now)
                case Release(worker_id):
                    del self.pods[worker_id]
        world = decision.status.world
        inside = world.member_set if world.is_active else frozenset()
        for worker_id in inside & self.pods.keys():
            if self.pods[worker_id].agent is not None:
                self.pods[worker_id] = arrived(self.pods[worker_id], world.number)

    def _make(self, worker_id: int, now: datetime) -> None:
        name = f"n{worker_id * 7919 % 1_000_003}"  # so that the ring goes through all of them
        node = Node(
            name,
            capacity=Capacity.SPOT,
            pool=f"pool-{worker_id % self.prices % 16}",
            allocatable=WHOLE,
            zone="ab"[worker_id % 2],
            prices=self._history(worker_id),
        )
        made = a_worker(
            worker_id,
            ready=True,
            ready_for=100.0,
            node=node,
            requests=HALF,
            metered=True,
            scheduled_at=now,
            created_at=now,
        )
        self._starts[worker_id] = now
        self.pods[worker_id] = made

    def _history(self, worker_id: int, most: int = MOST_CHANGES) -> PriceHistory:
        changes = self._changes[worker_id % self.prices][-most:]
        apart = timedelta(milliseconds=worker_id % 997 if self.apart else 0)
        first, *others = changes
        return PriceHistory(((EVER, first[1]), *((moment + apart, usd) for moment, usd in others)))

    def _change_prices(self) -> None:
        moment = self.now - timedelta(seconds=2)
        for number, changes in enumerate(self._changes):
            changes.append((moment, _usd(number, self._round)))
        for worker_id, worker in self.pods.items():
            assert worker.node is not None, "each has one"
            node = replace(worker.node, prices=self._history(worker_id))
            self.pods[worker_id] = replace(worker, node=node)

    def _lose_some(self) -> None:
        doomed = sorted(self.pods)[self._round % 97 :: max(self.workers // LOST_AT_ONCE, 1)]
        for worker_id in doomed:
            worker, moment = self.pods[worker_id], self.now - timedelta(seconds=1)
            assert worker.node is not None, "each has one"
            gone = replace(worker.node, gone=True, gone_at=moment)
            self.pods[worker_id] = replace(worker, node=gone, agent=None)
            self._ends[worker_id] = moment

    def _segment(self, worker_id: int) -> Segment:
        start, end = self._starts[worker_id], self._ends.get(worker_id)
        whole = self._history(worker_id, most=len(self._changes[0]))
        return Segment(worker_id, start, end, Decimal("0.5"), whole)


def _sum(status: JobState) -> Decimal:
    return (status.accumulators.usd or NO_USD).decimal


def _usd(number: int, time: int) -> UsdPerHour:
    return UsdPerHour(Decimal(100 + number) / 100 + Decimal((time * 7 + number) % 13) / 1000)


def _status(worker_ids: list[int], pods: dict[int, Worker]) -> JobState:
    ring = sorted(worker_ids, key=lambda worker_id: (worker_id % 2, worker_id * 7919 % 1_000_003))
    world = World(
        number=WORLD_NUMBER,
        members=tuple(ring),
        is_active=True,
        entry=Entry.ABORT,
        store="10.0.0.1:1",
        state_holders=tuple(ring),
        formed_at=NOW - timedelta(hours=1),
        late_workers=tuple(worker_ids),
    )
    names = [f"a-long-name-of-a-node-of-some-cloud-{n:05}.internal" for n in range(10_000)]
    blamed = (*names[:MOST_BLAMED_ONCE], *(name for name in names[-MOST_AVOIDED:] for _ in "ab"))
    held = JoiningWorkers(
        failures=3,
        retry_at=NOW + timedelta(days=300),
        held=(HeldBack(tuple(worker_ids), world=3),),
    )
    end = worker_ids[-1] + 1
    gaps = zip([-1, *worker_ids], [*worker_ids, end], strict=True)
    settled = [(a + 1, b - 1) for a, b in gaps if b > a + 1]
    return JobState(
        phase=Phase.RUNNING,
        world=world,
        restarts=Restarts(blamed=blamed, joining_workers=held),
        rejections=Rejections(
            count=9,
            worker=0,
            retry_at=NOW - timedelta(hours=1),
            nodes=tuple(names[:MOST_AVOIDED]),
            message="no GPU",
        ),
        checkpoint=AcknowledgedCheckpoint(name="step-900.g7", step=900, time=NOW, orders=9),
        local_checkpoint=LocalCheckpoint(step=910, time=NOW),
        next_worker_id=end,
        settled=Ranges.of(settled),
    )
