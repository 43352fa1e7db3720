"""Whatever is lost or dries up: limits are kept, and none keeps a job below its minimum."""

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.api.capacitypool import Capacity
from spotrun.policies.chain import decide
from spotrun.state.actions import Create, Release, Remove, Withdraw
from spotrun.state.job_state import JobState
from spotrun.state.market import Market
from spotrun.state.snapshot import JobSnapshot, Worker
from tests.support.jobs.builders import NOW, ON_CLAIM, a_job, a_spec, a_worker, ago
from tests.support.money.pool_builders import a_node_of, a_spot_pool, an_on_demand_pool, on_market

POOLS = (
    a_spot_pool("a", 0.3, zone="x"),
    a_spot_pool("b", 0.4, zone="x"),
    a_spot_pool("c", 0.5, zone="y"),
    a_spot_pool("wide", 0.6, zones=("x", "y", "z")),
    an_on_demand_pool("d", zone="z"),
)


@dataclass
class Town:
    """A job whose pods are bound at once, anywhere that they allow, and are lost at random."""

    spec: dict[str, object]
    rolls: Random
    status: JobState = field(default_factory=JobState)
    workers: dict[int, Worker] = field(default_factory=dict)
    dry: frozenset[str] = frozenset()

    def snapshot(self) -> JobSnapshot:
        pools = tuple(
            replace(pool, available=False) if pool.name in self.dry else pool for pool in POOLS
        )
        return JobSnapshot(
            "ns",
            "job",
            "job-uid",
            "7",
            1,
            ago(3600),
            a_spec(8, min=3, placement=self.spec),
            self.status,
            template="t1",
            workers=tuple(self.workers[n] for n in sorted(self.workers)),
            leading_seconds=3600.0,
            market=Market(pools),
        )

    def settle(self) -> None:
        """Decide until nothing is left to do."""
        for _ in range(20):
            decision = decide(self.snapshot(), NOW)
            self.status = decision.status
            for action in decision.actions:
                match action:
                    case Create():
                        self.bind(action)
                    case Remove() | Withdraw() | Release():
                        self.workers.pop(action.worker_id, None)
                    case _:
                        raise AssertionError(action)
            if not decision.actions:
                return
        raise AssertionError("it does not come to rest")

    def bind(self, create: Create) -> None:
        names = create.place.required or tuple(pool.name for pool in POOLS)
        name = self.rolls.choice(names)
        pool = next(pool for pool in POOLS if pool.name == name)
        zone = create.place.zone or self.rolls.choice(pool.zones)
        node = replace(a_node_of(pool, create.worker_id, ago(60)), zone=zone)
        self.workers[create.worker_id] = a_worker(create.worker_id, node=node, created_at=ago(100))

    def lose(self) -> None:
        gone = [n for n in self.workers if self.rolls.random() < 0.4]
        for worker_id in gone:
            worker = self.workers[worker_id]
            assert worker.node is not None
            self.workers[worker_id] = replace(worker, node=replace(worker.node, gone=True))
        self.dry = frozenset(p.name for p in POOLS if self.rolls.random() < 0.3)

    def count(self, key: str) -> Counter[str]:
        nodes = [worker.node for worker in self.workers.values() if worker.node is not None]
        return Counter(getattr(node, key) for node in nodes)


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([None, 20, 40, 60]),
    st.sampled_from([None, 30, 50]),
)
def test_limits_are_kept_through_random_losses(
    seed: int, pool_percent: int | None, zone_percent: int | None
) -> None:
    given = {"maxPercentPerPool": pool_percent, "maxPercentPerZone": zone_percent}
    town = Town({key: value for key, value in given.items() if value}, Random(seed))  # noqa: S311
    for _ in range(3):
        town.settle()
        num = len(town.workers)
        assert 3 <= num <= 8, "no limit keeps a job below its minimum"
        for key, percent in (("pool", pool_percent), ("zone", zone_percent)):
            most = max(8 * (percent or 100) // 100, 1)
            assert num <= 3 or max(town.count(key).values()) <= max(most, 3)
        town.lose()


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 3))
def test_the_base_is_kept_through_random_losses(seed: int, base: int) -> None:
    town = Town({"onDemandBase": base}, Random(seed))  # noqa: S311
    for _ in range(3):
        town.settle()
        stable = [
            worker
            for worker in town.workers.values()
            if worker.node is not None and worker.node.capacity is not Capacity.SPOT
        ]
        assert len(town.workers) == 8
        assert len(stable) >= base
        town.lose()


@pytest.mark.parametrize(
    ("sizes", "percent", "made"),
    [
        pytest.param({}, 70, 5, id="any size"),
        pytest.param({"perReplica": 2, "min": 2}, 70, 4, id="whole replicas"),
        pytest.param({"sizes": (2, 4, 8), "min": 2}, 70, 4, id="listed sizes"),
        pytest.param({"sizes": (2, 6, 8), "min": 2}, 70, 2, id="listed sizes, far apart"),
        pytest.param({"sizes": (4, 8), "min": 4}, 30, 4, id="the smallest is above the limit"),
        pytest.param({"sizes": (2, 6, 8), "min": 2}, 100, 8, id="no limit"),
    ],
)
def test_no_more_are_asked_for_than_limits_let_train(
    sizes: dict[str, Any], percent: int, made: int
) -> None:
    job = a_job(8, placement={"capacity": "OnDemand", "maxPercentPerPool": percent}, **sizes)
    job = on_market(job, an_on_demand_pool())
    asked = [one for one in job.decide().actions if isinstance(one, Create)]
    assert len(asked) == made
    there = job.with_workers(*range(made), node=a_node_of(an_on_demand_pool(), 0))
    assert not any(isinstance(one, Create) for one in there.decide().actions)


def test_whom_limits_leave_where_it_is_counts_among_those_who_train() -> None:
    spot = [a_spot_pool(zone, 0.3, zone=zone, declared=True) for zone in ("x", "y")]
    rest = [an_on_demand_pool(f"od{n}", zone="z", declared=True) for n in range(3)]
    spec = {"placement": {"maxPercentPerPool": 40}, "checkpoint": ON_CLAIM}
    job = a_job(8, min=4, sizes=(4, 8), **spec).training(*range(8))
    for n in range(8):
        pool = spot[n % 2] if n < 4 else rest[n % 3]
        node = a_node_of(pool, n, ago(90_000))
        job = job.with_worker(n, ready=True, arrived=1, node=node, scheduled_at=ago(90_000))
    job = on_market(job.with_world("0-7", formed=90_000, store="10.0.0.1:1"), *spot, *rest)
    asked = [one.place.required for one in job.decide().actions if isinstance(one, Create)]
    assert asked == [("x",), ("y",)], "each pool may have three of eight"
