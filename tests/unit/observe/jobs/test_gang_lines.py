"""One line for all jobs."""

from datetime import timedelta
from typing import Any

import pytest

from spotrun.api.names import ConditionType, Reason
from spotrun.kube.resource import Key
from spotrun.money.shares import Resources
from spotrun.observe.jobs.gang_lines import Gangs
from spotrun.state.conditions import state
from spotrun.state.market import Market, PoolFacts
from spotrun.state.snapshot import Refusal
from tests.support.jobs.builders import NOW, JobBuilder, a_job, ago
from tests.support.money.pool_builders import a_spot_pool

FULL: dict[str, Any] = {"node": None, "unschedulable": "0/3 nodes are available"}


class Bench:
    """The line, and who was woken."""

    def __init__(self) -> None:
        self.now = NOW
        self.woken: list[str] = []
        self.gangs = Gangs(lambda key: self.woken.append(key.name), lambda: self.now)

    def may(self, name: str, job: JobBuilder, age: float = 0.0, namespace: str = "ns") -> bool:
        named = job.with_facts(name=name, uid=name, namespace=namespace, created_at=ago(age))
        return self.gangs.may_hold_nodes(named.snapshot())

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
SHORT = NEW.with_worker(0).with_facts(refusal=Refusal("QuotaExceeded", "exceeded quota: few"))
SHORT_OF_BOTH = SHORT.with_worker(0, **FULL)


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
    assert bench.woken_now() == {"b"}
    assert bench.may("b", WAITS, age=10)
    assert not bench.may("c", LACKS, age=5)
    assert bench.may("b", NEW, age=10), "while its workers are tried it keeps its turn"
    assert not bench.may("c", LACKS, age=5)
    assert bench.may("b", PLACED, age=10)
    assert bench.may("c", LACKS, age=5)


@pytest.mark.parametrize("namespaces", [1, 50])
def test_a_line_of_many_wakes_each_of_them_a_few_times(bench: Bench, namespaces: int) -> None:
    jobs = 50
    where = [f"ns-{n % namespaces}" for n in range(jobs)]
    for n in range(jobs):
        bench.may(str(n), LACKS, age=jobs - n, namespace=where[n])
    bench.woken_now()
    woken = 0
    for n in range(jobs):
        assert bench.may(str(n), LACKS, age=jobs - n, namespace=where[n])
        bench.may(str(n), PLACED, age=jobs - n, namespace=where[n])
        woken += len(bench.woken)
        assert bench.woken_now() == ({str(n + 1)} if n + 1 < jobs else set())
    assert woken <= 2 * jobs


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
    assert bench.gangs.wake_after_seconds(Key("ns", "a")) == 600.0
    assert not bench.may("b", LACKS, age=10)
    bench.now += timedelta(minutes=10)
    bench.woken_now()
    assert not bench.may("a", impossible, age=20)
    assert bench.gangs.wake_after_seconds(Key("ns", "a")) == float("inf")
    assert bench.woken_now() == {"b"}
    assert bench.may("b", LACKS, age=10)


def of_eight_gpus(job: JobBuilder, *pools: PoolFacts, **market: Any) -> JobBuilder:
    """Its workers ask for eight GPUs each."""
    return job.with_facts(market=Market(pools, **market), requests=Resources(gpus=8))


SMALL = a_spot_pool("small", gpus=1, allocatable=Resources(gpus=1))
NOBODY_PLACED = a_job(2, min=2).with_workers(0, 1, **FULL)
TOO_LARGE = of_eight_gpus(NOBODY_PLACED, SMALL)


def test_a_job_that_fits_no_node_and_no_pool_keeps_nobody_waiting(bench: Bench) -> None:
    assert bench.may("too large", TOO_LARGE, age=30), "an autoscaler may know a node for it"
    assert bench.may("fits", LACKS, age=20)
    assert not bench.may("fits and later", LACKS, age=10)
    assert bench.may("too large elsewhere", TOO_LARGE, age=30, namespace="other")
    assert not bench.may("too large", TOO_LARGE, age=30), "its pods use up what quota there is"


@pytest.mark.parametrize(
    "fits",
    [
        of_eight_gpus(NOBODY_PLACED, SMALL, a_spot_pool("empty", gpus=0)),
        of_eight_gpus(NOBODY_PLACED, SMALL, a_spot_pool("large", gpus=8)),
        of_eight_gpus(NOBODY_PLACED, SMALL, strays=(Resources(gpus=8),)),
        of_eight_gpus(NOBODY_PLACED),
        of_eight_gpus(LACKS, SMALL),
    ],
    ids=["a pool may grow", "a pool", "a node in no pool", "no pool is known", "has a node"],
)
def test_a_job_that_may_fit_somewhere_has_its_turn(bench: Bench, fits: JobBuilder) -> None:
    assert bench.may("may fit", fits, age=30)
    assert not bench.may("later", LACKS, age=20)


def test_when_its_pool_is_gone_a_job_leaves_the_line(bench: Bench) -> None:
    bench.may("a", of_eight_gpus(NOBODY_PLACED, a_spot_pool("large", gpus=8)), age=30)
    assert not bench.may("b", LACKS, age=20)
    bench.woken_now()
    bench.may("a", TOO_LARGE, age=30)
    assert bench.woken_now() == {"b"}
    assert bench.may("b", LACKS, age=20)


def test_who_fits_nowhere_comes_last_where_a_quota_is_shared(bench: Bench) -> None:
    assert bench.may("too large", TOO_LARGE, age=30)
    assert bench.may("short", SHORT, age=20)
    assert bench.woken_now() == {"too large"}
    assert not bench.may("too large", TOO_LARGE, age=30)


def short_since_now(job: JobBuilder) -> JobBuilder:
    kind, reason = ConditionType.TEMPLATE_ACCEPTED, Reason.QUOTA_EXCEEDED
    known = state(job.view(), job.status, kind, reason, "", holds=False)
    return job.with_status(conditions=known.conditions)


def test_of_two_that_share_a_quota_the_later_one_gives_way_until_the_first_is_complete(
    bench: Bench,
) -> None:
    assert bench.may("a", SHORT, age=20)
    assert not bench.may("b", SHORT, age=10)
    assert bench.may("c", SHORT, age=5, namespace="other"), "that is another quota"
    bench.woken_now()
    assert bench.may("a", PLACED, age=20)
    assert bench.woken_now() == {"b"}
    assert bench.may("b", SHORT, age=10)


def test_a_quota_and_nodes_are_one_line_in_a_namespace_and_elsewhere_only_nodes_are(
    bench: Bench,
) -> None:
    assert bench.may("short", SHORT, age=20)
    assert not bench.may("lacks nodes, too", LACKS, age=10), "it uses the quota up"
    assert bench.may("elsewhere", LACKS, age=5, namespace="other"), "the one before it only waits"
    assert bench.may("short", PLACED, age=20)
    assert bench.may("lacks nodes, too", LACKS, age=10)
    assert not bench.may("elsewhere", LACKS, age=5, namespace="other")
    assert not bench.may("short and later", SHORT, age=1)


def test_who_lacked_nodes_stands_in_line_for_them_also_when_its_quota_is_used_up(
    bench: Bench,
) -> None:
    assert bench.may("a", LACKS, age=20, namespace="other")
    assert not bench.may("b", SHORT_OF_BOTH, age=10)
    assert not bench.may("b", SHORT.without(0), age=10), "else it would take turns with itself"


def test_a_gang_larger_than_its_quota_gives_back_after_its_patience_and_is_in_nobodys_way(
    bench: Bench,
) -> None:
    large = short_since_now(SHORT)
    assert bench.may("a", large, age=20)
    assert bench.gangs.wake_after_seconds(Key("ns", "a")) == 600.0
    assert not bench.may("b", SHORT, age=10)
    bench.woken_now()
    bench.now += timedelta(minutes=10)
    assert not bench.may("a", large, age=20), "it holds a part"
    assert bench.woken_now() == {"b"}
    assert bench.gangs.wake_after_seconds(Key("ns", "a")) == float("inf")
    assert bench.may("b", SHORT, age=10)
    assert not bench.may("a", large.without(0), age=20), "b has its turn"
    bench.woken_now()
    assert bench.may("b", PLACED, age=10)
    assert bench.woken_now() == {"a"}
    assert bench.may("a", large.without(0), age=20), "it may ask"
    assert bench.may("as large", large.without(0), age=1), "so may everybody who holds nothing"
    assert bench.may("c", SHORT, age=5), "and holds nobody up"
    assert not bench.may("a", large, age=20), "whatever it was given"


def test_lines_without_anybody_are_forgotten(bench: Bench) -> None:
    bench.may("a", SHORT, age=20, namespace="one")
    bench.may("b", LACKS, age=10, namespace="two")
    bench.gangs.forget(Key("one", "a"))
    bench.gangs.forget(Key("two", "b"))
    assert not bench.gangs._lines
    assert not bench.gangs._stands_in
