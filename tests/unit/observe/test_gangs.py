"""One line for all jobs."""

from datetime import timedelta
from typing import Any

import pytest

from spotrun.api.names import ConditionType, Reason
from spotrun.decide.ledger import state
from spotrun.kube.resource import Key
from spotrun.observe.gangs import Gangs
from tests.decide_builders import NOW, JobBuilder, a_job, ago

FULL: dict[str, Any] = {"node": None, "unschedulable": "0/3 nodes are available"}


class Bench:
    """The line, and who was woken."""

    def __init__(self) -> None:
        self.now = NOW
        self.woken: list[str] = []
        self.gangs = Gangs(lambda key: self.woken.append(key.name), lambda: self.now)

    def may(self, name: str, job: JobBuilder, age: float = 0.0) -> bool:
        seen = job.with_facts(name=name, uid=name, created_at=ago(age)).snapshot()
        return self.gangs.may_hold_nodes(seen)

    def woken_now(self) -> set[str]:
        woken, self.woken = set(self.woken), []
        return woken


@pytest.fixture
def bench() -> Bench:
    return Bench()


NEW = a_job(2, min=2)
LACKS = a_job(2, min=2).with_worker(0).with_worker(1, **FULL)
PLACED = a_job(2, min=2).with_workers(0, 1)
TRAINS = a_job(2, min=2).training(0, 1)
WAITS = a_job(2, min=2).with_status(reason="WaitingForGang")


def test_while_there_is_room_nobody_waits(bench: Bench) -> None:
    assert all(bench.may(f"job-{n}", NEW, age=n) for n in range(5))
    assert bench.woken == []


def test_who_comes_after_the_first_that_lacks_nodes_waits_and_who_comes_before_does_not(
    bench: Bench,
) -> None:
    assert bench.may("first", LACKS, age=20)
    assert not bench.may("later and lacking, too", LACKS, age=10)
    assert bench.may("later and new", NEW, age=5), "it may find nodes for all"
    assert bench.may("earlier and new", NEW, age=30)
    assert bench.may("later, but urgent", a_job(2, min=2, priority=1), age=1)
    assert bench.may("trains", TRAINS)
    assert bench.may("placed", PLACED)


def test_when_the_first_is_complete_the_next_is_woken_and_has_its_turn(bench: Bench) -> None:
    bench.may("a", LACKS, age=20)
    assert not bench.may("b", WAITS, age=10)
    assert not bench.may("c", LACKS, age=5)
    bench.woken_now()
    assert bench.may("a", PLACED, age=20)
    assert bench.woken_now() == {"b", "c"}
    assert bench.may("b", WAITS, age=10)
    assert not bench.may("c", LACKS, age=5)
    assert bench.may("b", NEW, age=10), "while its workers are tried it keeps its turn"
    assert not bench.may("c", LACKS, age=5)
    assert bench.may("b", PLACED, age=10)
    assert bench.may("c", LACKS, age=5)


def test_one_that_takes_the_lead_wakes_those_that_must_give_way(bench: Bench) -> None:
    bench.may("a", LACKS, age=20)
    bench.woken_now()
    assert bench.may("urgent", LACKS.with_spec(2, min=2, priority=1), age=1)
    assert bench.woken_now() == {"a"}
    assert not bench.may("a", LACKS, age=20)


def test_a_job_that_is_gone_leaves_the_line(bench: Bench) -> None:
    bench.may("a", LACKS, age=20)
    bench.may("b", LACKS, age=10)
    bench.woken_now()
    bench.gangs.forget(Key("ns", "a"))
    assert bench.woken_now() == {"b"}
    assert bench.may("b", LACKS, age=10)


def test_after_ten_minutes_without_nodes_the_next_has_its_turn(bench: Bench) -> None:
    kind, reason = ConditionType.CAPACITY_AVAILABLE, Reason.WAITING_FOR_CAPACITY
    known = state(LACKS.view(), LACKS.status, kind, reason, "", holds=False)
    impossible = LACKS.with_status(conditions=known.conditions)
    assert bench.may("a", impossible, age=20)
    assert bench.gangs.again_seconds(Key("ns", "a")) == 600.0
    assert not bench.may("b", LACKS, age=10)
    bench.now += timedelta(minutes=10)
    bench.woken_now()
    assert not bench.may("a", impossible, age=20)
    assert bench.gangs.again_seconds(Key("ns", "a")) == float("inf")
    assert bench.woken_now() == {"b"}
    assert bench.may("b", LACKS, age=10)
