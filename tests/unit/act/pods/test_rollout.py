"""Workers that Kubernetes refuses: what is remembered of it, and what becomes of their gangs."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.act.errors import Trouble
from spotrun.act.manifests.worker_settings import Settings
from spotrun.act.pods.rollout import Creations
from spotrun.act.write_retries import Retries
from spotrun.observe.jobs.gang_lines import Gangs
from spotrun.observe.jobs.leader_memory import Memory
from spotrun.policies.chain import decide
from spotrun.state.actions import Create, Remove
from spotrun.state.snapshot import JobSnapshot, Refusal
from tests.support.jobs.builders import NOW, JobBuilder, a_job, ago

ROUND = timedelta(minutes=1)
TRAINS = timedelta(minutes=5)
MOST_ROUNDS = 200
KEPT = "none is kept while there is no room"


class NoProtection:
    """What is made beside the workers, and never refused."""

    async def before_workers(self, *_: object) -> list[Trouble]:
        return []

    async def keep(self, *_: object) -> None:
        return None


@dataclass
class Shared:
    """A namespace with a quota of pods; they are made and go at once, and a full gang trains."""

    quota: int
    now: datetime = NOW
    jobs: dict[str, JobBuilder] = field(default_factory=dict)
    memories: dict[str, Memory] = field(default_factory=dict)
    trains: dict[str, tuple[int, datetime]] = field(default_factory=dict)  # workers, until when
    done: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        pods: Any = self
        protection: Any = NoProtection()
        self.gangs = Gangs(lambda _: None, lambda: self.now)
        self.creations = Creations(
            pods,
            protection,
            lambda: Settings(server="sync:9443", ca_pem="PEM"),
            retries=Retries(self.seconds, lambda: 0.5),
            clock=self.seconds,
            roll=lambda: 0.5,
        )

    def submit(self, name: str, size: int, age: float) -> None:
        facts: dict[str, Any] = {"name": name, "uid": name, "created_at": ago(age)}
        self.jobs[name] = a_job(size, min=size).with_facts(**facts)
        self.memories[name] = Memory()

    def seconds(self) -> float:
        return (self.now - NOW).total_seconds()

    @property
    def used(self) -> int:
        waiting = sum(len(job.workers) for job in self.jobs.values())
        return waiting + sum(size for size, _ in self.trains.values())

    def refused(self) -> Trouble | None:
        used = f"used: pods={self.used}, limited: pods={self.quota}"
        words = f"exceeded quota: few, requested: pods=1, {used}"
        full = self.used >= self.quota
        return Trouble(refusal=Refusal("QuotaExceeded", words)) if full else None

    async def try_out(
        self, job: JobSnapshot, worker: Create, settings: Settings, memory: Memory
    ) -> Trouble | None:
        if not (trouble := self.refused()):
            memory.accepted = job.template
        return trouble

    async def create(self, job: JobSnapshot, worker: Create, settings: Settings) -> Trouble | None:
        if not (trouble := self.refused()):
            self.jobs[job.name] = self.jobs[job.name].with_worker(worker.worker_id, ready=True)
        return trouble

    async def turn(self, name: str) -> None:
        memory = self.memories[name]
        refusal = memory.refused.refusal if memory.refused is not None else None
        seen = self.jobs[name].with_facts(refusal=refusal).snapshot()
        seen = replace(seen, may_hold_nodes=self.gangs.may_hold_nodes(seen))
        decision = decide(seen, self.now)
        job = replace(self.jobs[name], status=decision.status)
        for action in decision.actions:
            if isinstance(action, Remove):
                job = job.without(action.worker_id)
        self.jobs[name] = job
        creations = [action for action in decision.actions if isinstance(action, Create)]
        await self.creations.make(seen, creations, memory)

    async def look_at(self, name: str) -> None:
        """One turn, and another one at once, in which what came of it is seen."""
        for _ in range(2):
            await self.turn(name)
        job = self.jobs[name]
        if len(job.workers) == job.spec.workers.min:
            self.gangs.may_hold_nodes(replace(job.snapshot(), deleting=True))
            self.trains[name] = len(job.workers), self.now + TRAINS
            del self.jobs[name]

    def pass_time(self) -> None:
        self.now += ROUND
        self.done |= {name for name, (_, until) in self.trains.items() if until <= self.now}
        self.trains = {name: one for name, one in self.trains.items() if name not in self.done}

    async def play(self, order: Random, is_over: Callable[[], bool]) -> None:
        for _ in range(MOST_ROUNDS):
            names = list(self.jobs)
            order.shuffle(names)
            for name in names:
                await self.look_at(name)
            if is_over():
                return
            self.pass_time()

    def holds_nothing(self) -> bool:
        """Whether all that are left have waited in vain."""
        left = [(dict(job.workers), job.status) for job in self.jobs.values()]
        return all(
            not workers and status.reason == "QuotaExceeded" and KEPT in (status.message or "")
            for workers, status in left
        )


@given(
    quota=st.integers(1, 8),
    sizes=st.lists(st.integers(1, 10), min_size=1, max_size=4),
    order=st.randoms(use_true_random=False),
)
@settings(max_examples=20, deadline=None)
def test_gangs_under_a_quota_train_one_after_the_other_and_none_holds_a_part_for_ever(
    quota: int, sizes: list[int], order: Random
) -> None:
    shared = Shared(quota)
    for number, size in enumerate(sizes):
        shared.submit(f"job-{number}", size, age=order.random() * 100)
    possible = {f"job-{n}" for n, size in enumerate(sizes) if size <= quota}

    asyncio.run(shared.play(order, lambda: shared.done == possible))
    assert shared.done == possible

    asyncio.run(shared.play(order, shared.holds_nothing))
    assert shared.holds_nothing()


async def test_of_two_half_gangs_the_first_gets_what_the_other_has() -> None:
    shared = Shared(quota=2)
    shared.submit("later", 4, age=0)
    await shared.look_at("later")
    shared.quota = 4
    shared.submit("first", 4, age=60)
    await shared.look_at("first")
    assert [len(shared.jobs[name].workers) for name in ("later", "first")] == [2, 2]

    await shared.look_at("later")
    shared.pass_time()
    await shared.look_at("first")

    assert set(shared.trains) == {"first"}
    assert not shared.jobs["later"].workers


@pytest.mark.parametrize(
    ("reason", "may_hold_nodes", "remembered"),
    [
        ("QuotaExceeded", False, True),
        ("QuotaExceeded", True, False),
        ("TemplateRefused", False, False),
    ],
)
async def test_who_gives_its_workers_back_for_a_quota_remembers_what_was_said(
    reason: str, may_hold_nodes: bool, remembered: bool
) -> None:
    shared = Shared(quota=1)
    shared.submit("a", 2, age=0)
    await shared.turn("a")
    memory = shared.memories["a"]
    assert memory.refused is not None
    memory.refused.refusal = Refusal(reason, "words")
    job = replace(shared.jobs["a"].snapshot(), may_hold_nodes=may_hold_nodes)

    await shared.creations.make(job, [], memory)

    assert (memory.refused is not None) is remembered


async def test_a_refusal_is_forgotten_once_the_rest_is_made() -> None:
    shared = Shared(quota=1)
    shared.submit("a", 2, age=0)
    await shared.turn("a")
    shared.quota, shared.now = 2, NOW + timedelta(seconds=10)
    assert shared.memories["a"].refused is not None
    await shared.turn("a")
    assert shared.memories["a"].refused is None
    assert set(shared.jobs["a"].workers) == {0, 1}
