"""From when on a worker is paid, and until when, whoever says so and whoever is there to see it."""

from dataclasses import replace

import pytest

from spotrun.api.cost import Accumulators, Cost
from spotrun.state.actions import Decision
from spotrun.state.codec import write
from spotrun.state.snapshot import PodEnd, PodPhase
from tests.support.jobs.builders import JobBuilder, a_job, ago, later
from tests.support.jobs.stored_state import cost_of, sums_of
from tests.support.money.priced_nodes import a_node, at_work, ended

DUE = {"written_seconds": 600.0}


def a_metered_job(*worker_ids: int, **worker: object) -> JobBuilder:
    return at_work(a_job(len(worker_ids)), *worker_ids, **worker).with_facts(**DUE)  # type: ignore[arg-type]


def sums(decision: Decision) -> Accumulators:
    return sums_of(decision.status)


def cost(decision: Decision) -> Cost:
    return cost_of(decision.status)


def test_who_has_no_node_yet_is_free() -> None:
    decision = a_job(1).with_worker(0, node=None).with_facts(**DUE).decide()
    assert write(decision.status).cost is None


def test_who_never_got_a_node_is_settled_for_nothing() -> None:
    job = a_job(1, suspend=True).with_worker(0, node=None, deleting=True)
    decision = job.decide()
    assert (str(decision.status.settled), write(decision.status).accumulators) == ("0", None)


@pytest.mark.parametrize(
    ("skewed", "usd"),
    [
        pytest.param({"scheduled_at": later(30)}, "0", id="the scheduler's clock is ahead"),
        pytest.param({"ended_at": later(3600)}, "1", id="the node's clock is ahead"),
        pytest.param({"ended_at": ago(7200)}, "0", id="the node's clock is behind"),
    ],
)
def test_clocks_that_differ_charge_neither_the_future_nor_less_than_nothing(
    skewed: dict[str, object], usd: str
) -> None:
    decision = a_metered_job(0, **{**ended(), **skewed}).decide()
    assert sums(decision).usd == usd


def test_a_node_that_vanished_is_paid_until_its_last_sign_of_life() -> None:
    node = replace(a_node(), gone=True, ready=False, gone_at=ago(600))
    unheard = a_metered_job(0, node=node).decide()
    assert sums(unheard).usd == "0.833333333333"
    heard = a_metered_job(0, node=node, ready=True, heard=1800.0).decide()
    assert sums(heard).usd == "0.5"


def test_the_time_in_which_an_image_is_pulled_is_paid() -> None:
    pulling = a_metered_job(0, phase=PodPhase.PENDING).decide()
    assert (cost(pulling).usd, cost(pulling).usd_per_hour) == ("1", "1")


EVICTED = {
    "phase": PodPhase.FAILED,
    "end": PodEnd(pod_reason="Evicted", pod_message="The node was low on resource: memory."),
    "disrupted_at": ago(1800),
}


def test_who_was_evicted_before_it_started_is_paid_for_as_long_as_it_had_its_node() -> None:
    decision = a_metered_job(0, **EVICTED).decide()
    assert (str(decision.status.settled), sums(decision).usd) == ("0", "0.5")


def test_who_was_evicted_before_it_had_a_node_is_free() -> None:
    decision = a_job(1, suspend=True).with_worker(0, node=None, **EVICTED).decide()
    assert (str(decision.status.settled), write(decision.status).accumulators) == ("0", None)


def test_of_an_hour_without_an_operator_each_worker_pays_what_it_was_there() -> None:
    job = a_metered_job(0, 1)
    before = job.decide()
    away = job.with_state(before.status)
    left_early = at_work(away, 1, **{**ended(), "ended_at": later(600)})
    after = left_early.decide(later(3600))
    assert cost(before).usd == "2"
    assert sums(after).usd == "1.166666666667"  # who ended ten minutes later
    assert cost(after).usd == "3.1667"  # and who is still there: $2
    assert sums(left_early.decide(later(7200))).usd == sums(after).usd


def test_a_pod_that_its_kubelet_refused_is_paid_until_then() -> None:
    job = a_metered_job(0, phase=PodPhase.FAILED, disrupted_at=ago(1800))
    assert sums(job.decide()).usd == "0.5"
