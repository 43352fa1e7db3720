"""One choice at a time, until those who were chosen have given what was asked of them."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from spotrun.kube.resource import Key
from spotrun.money.shares import Resources
from spotrun.money.units import Usd
from spotrun.observe.jobs.caches import JobCaches
from spotrun.observe.jobs.preemptions import AGAIN, SETTLED, Preemptions
from spotrun.observe.jobs.victims import Candidate, Victims
from spotrun.policies.placement.queueing.gang import PATIENCE
from spotrun.policies.placement.queueing.preemption import Claim, Held, Victim
from spotrun.state.sizes import NO_PRECEDENCE, Order, Preemptor
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.stored.workers import GivenWay
from tests.support.jobs.builders import NOW, JobBuilder, a_job, ago

FULL: dict[str, Any] = {"node": None, "unschedulable": "0/3 nodes are available"}
ONE = Resources(gpus=1)
HIGH = a_job(2, min=2, priority=9, placement={"preempts": "LowerPriority"})
LACKS = HIGH.with_worker(0, **FULL).with_worker(1, **FULL)
PLACED = HIGH.with_workers(0, 1)


def a_candidate(name: str, workers: int, usd: int, **facts: Any) -> Candidate:
    held = tuple(Held(f"{name}-{n}", ONE) for n in range(workers))
    victim = Victim(f"ns/{name}", held, tuple(range(1, workers)), Usd(1), Usd(usd))
    return Candidate(Key("ns", name), victim, facts.get("asks", True))


class Bench:
    """Jobs that could give way, and who was woken."""

    def __init__(self) -> None:
        self.now = NOW
        self.woken: list[str] = []
        self.found = [a_candidate("low", 3, 10)]
        self.placed = {"low": 3}
        self.given: dict[Key, GivenWay] = {}
        victims = SimpleNamespace(
            of_lower_priority=lambda _: iter(self.found),
            claim=lambda _, missing, those: Claim(
                missing, ONE, {h.node: Resources() for one in those for h in one.workers}
            ),
            placed=lambda key: self.placed[key.name],
            reaches=lambda one, other: one == other,
            free_strays=lambda _: 0,
            given_to=lambda _: self.given,
        )
        jobs = SimpleNamespace(get=lambda _: None, spec_and_state=lambda _: None)
        self.index = Preemptions(
            cast("JobCaches", jobs),
            cast("Victims", victims),
            lambda key: self.woken.append(key.name),
            lambda: self.now,
        )

    def look(self, job: JobBuilder, name: str = "high") -> Any:
        return self.index.look_at(snapshot(job, name))

    def order(self, name: str = "low") -> Order | None:
        order: Order | None = self.look(a_job(3, min=1).training(0, 1, 2), name).order
        return order

    def later(self, time: timedelta) -> None:
        self.now += time


def snapshot(job: JobBuilder, name: str) -> JobSnapshot:
    return job.with_facts(name=name, uid=name, namespace="ns").snapshot()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_gang_that_lacks_nodes_has_a_job_of_lower_priority_shrink(bench: Bench) -> None:
    made = bench.look(LACKS).made
    assert made is not None
    assert "ns/low shrinks from 3 to 1 workers" in made.words
    assert bench.woken == ["low"]
    order = bench.order()
    assert order is not None
    assert (order.to, order.uid, order.workers) == ("ns/high", "high", 1)
    assert "job ns/high of priority 9 lacks nodes for 2 workers" in order.why
    assert "about $1.00 if it shrinks, $10.00 if it stops" in order.why


def test_while_room_is_made_a_cheaper_job_changes_nothing(bench: Bench) -> None:
    bench.look(LACKS)
    bench.found = [a_candidate("low", 3, 10), a_candidate("cheaper", 3, 2)]
    bench.placed["cheaper"] = 3
    bench.later(timedelta(minutes=2))
    bench.look(LACKS)
    assert bench.order("cheaper") is None
    bench.placed["low"] = 1
    bench.found[0] = a_candidate("low", 1, 10)
    bench.look(LACKS)
    bench.later(SETTLED - timedelta(seconds=1))
    bench.look(LACKS)
    assert bench.order("cheaper") is None, "the scheduler has yet to try"
    bench.later(timedelta(seconds=1))
    bench.look(HIGH.with_worker(0).with_worker(1, **FULL))
    assert bench.order("cheaper") is not None, "one worker still lacks a node"
    assert bench.order("low") is not None


def test_room_by_which_no_worker_found_a_node_is_given_back_at_once(bench: Bench) -> None:
    bench.look(LACKS)
    bench.placed["low"] = 1
    bench.look(LACKS)
    bench.later(SETTLED)
    made = bench.look(LACKS).made
    assert made is not None
    assert made.words == "the room that jobs of lower priority made did not help: they get it back"
    assert bench.order() is None


def test_where_not_even_all_have_room_for_the_gang_nobody_gives_any(bench: Bench) -> None:
    bench.found = [a_candidate("low", 1, 10)]
    made = bench.look(LACKS).made
    assert made is not None
    assert made.words == (
        "2 workers lack nodes. No job is preempted for them: even if all 1 jobs of lower priority "
        "gave up all of their nodes, only 1 would find room"
    )
    assert bench.woken == []
    bench.found = [a_candidate("low", 3, 10)]
    bench.later(AGAIN)
    assert "shrinks" in bench.look(LACKS).made.words


def test_who_got_its_room_back_a_moment_ago_is_left_alone(bench: Bench) -> None:
    bench.found = [a_candidate("low", 3, 10, asks=False)]
    assert "no job of lower priority could give any" in bench.look(LACKS).made.words


def test_when_the_gang_is_complete_those_who_gave_way_look_for_room(bench: Bench) -> None:
    bench.look(LACKS)
    bench.woken.clear()
    bench.look(PLACED)
    assert bench.woken == ["low"]
    assert bench.order() is None
    assert bench.index.wake_after_seconds(Key("ns", "high")) == float("inf")


def test_others_of_lower_priority_do_not_grow_meanwhile(bench: Bench) -> None:
    bench.look(LACKS)
    other = a_job(3, min=1).training(0)
    assert bench.look(other, "other").grows_after == "ns/high"
    assert bench.look(other.with_spec(3, min=1, priority=9), "other").grows_after == ""
    bench.look(PLACED)
    assert bench.look(other, "other") == NO_PRECEDENCE


def test_room_that_was_of_no_use_for_long_is_given_back(bench: Bench) -> None:
    given = a_job(3, min=1).with_status(gives_way=GivenWay("ns/high", "high", 1, ago(0)))
    bench.look(LACKS)
    assert bench.look(given, "low").preemptor is Preemptor.WAITS
    bench.later(PATIENCE)
    bench.look(LACKS)
    assert bench.order() is None
    assert bench.look(given, "low").preemptor is Preemptor.IS_GONE
    bench.later(PATIENCE - timedelta(seconds=1))
    bench.look(LACKS)
    assert bench.order() is None
    bench.later(timedelta(seconds=1))
    bench.look(LACKS)
    assert bench.order() is not None, "it may try once more"
    bench.later(PATIENCE)
    bench.look(LACKS)
    bench.later(PATIENCE)
    bench.look(LACKS)
    assert bench.order() is None, "the second time it takes twice as long"


def test_a_new_leader_goes_on_with_what_jobs_have_stored(bench: Bench) -> None:
    bench.given = {Key("ns", "low"): GivenWay("ns/high", "high", 1, ago(5))}
    bench.found.append(a_candidate("cheaper", 3, 2))
    bench.placed["cheaper"] = 3
    bench.look(LACKS)
    order = bench.order()
    assert order is not None
    assert order.workers == 1
    assert bench.order("cheaper") is None


@pytest.mark.parametrize("size", [1, 0])
def test_a_new_leader_leaves_the_scheduler_time_to_use_what_was_given(
    bench: Bench, size: int
) -> None:
    """One that has given all has no pods, so it is no candidate: what it stores counts."""
    bench.given = {Key("ns", "low"): GivenWay("ns/high", "high", size, ago(5))}
    bench.placed = {"low": size, "cheaper": 3}
    bench.found = [a_candidate("cheaper", 3, 2)]
    made = bench.look(LACKS).made
    assert made is not None
    assert "give way: ns/low " in made.words, "nobody knows whether that was said"
    bench.look(LACKS)
    bench.later(SETTLED - timedelta(seconds=1))
    bench.look(LACKS)
    assert bench.order("cheaper") is None
    bench.later(timedelta(seconds=1))
    bench.look(HIGH.with_worker(0).with_worker(1, **FULL))
    assert bench.order("cheaper") is not None, "one worker still lacks a node"
