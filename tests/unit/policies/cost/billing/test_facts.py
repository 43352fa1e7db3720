"""A bill takes from a job what its status says."""

from dataclasses import replace
from decimal import Decimal

import pytest

from spotrun.api.names import Phase
from spotrun.money.units import NO_RATE, Usd, UsdPerHour
from spotrun.policies.cost.billing.facts import billed
from spotrun.policies.cost.billing.lines import Standing
from spotrun.policies.cost.billing.parts import Part
from spotrun.state.job_state import JobState
from spotrun.state.stored.cost import Cost, PoolCost
from tests.support.jobs.builders import NOW, a_job, later
from tests.support.money.priced_nodes import a_node, at_work

_TWO = Usd(Decimal(2))
COST = Cost(
    usd=_TWO,
    by_pool=(PoolCost("a", _TWO),),
    usd_per_hour=UsdPerHour(Decimal(1)),
    as_of=NOW,
)


@pytest.mark.parametrize(
    ("phase", "rate", "standing"),
    [
        (Phase.RUNNING, "1", Standing.OPEN),
        (Phase.SUSPENDED, "0", Standing.OPEN),
        (Phase.SUCCEEDED, "1", Standing.OPEN),  # its last workers are still paid
        (Phase.SUCCEEDED, "0", Standing.ENDED),
        (Phase.FAILED, "0", Standing.ENDED),
    ],
)
def test_a_job_may_cost_more_until_it_is_over_and_nothing_is_paid(
    phase: Phase, rate: str, standing: Standing
) -> None:
    cost = replace(COST, usd_per_hour=UsdPerHour(Decimal(rate)))
    job = billed(a_job().snapshot(), JobState(phase=phase, cost=cost), later(9), {})
    assert job.facts.standing is standing
    assert job.facts.as_of == NOW


def test_the_capacity_types_of_pools_are_remembered_when_their_nodes_are_gone() -> None:
    node = a_node("n", pool="a")
    running = at_work(a_job(), 0, node=node).snapshot()
    status = JobState(cost=COST)
    seen = billed(running, status, NOW, {"b": "Reserved"})
    assert seen.capacity_of == {"a": node.capacity.value, "b": "Reserved"}
    after = billed(a_job().snapshot(), status, NOW, seen.capacity_of)
    assert after.facts.amounts == {Part("compute", node.capacity.value, "a"): 20_000}


def test_a_label_of_the_namespace_comes_before_that_of_the_job() -> None:
    running = replace(a_job().snapshot(), cost_labels={"team": "theirs", "project": "x"})
    job = billed(running, JobState(cost=COST), NOW, {}, {"team": "ours"})
    assert job.facts.labels == {"team": "ours", "project": "x"}


def test_a_deleted_job_pays_nothing_any_more() -> None:
    job = billed(a_job().snapshot(), JobState(cost=COST), NOW, {})
    gone = job.deleted(replace(COST, usd=Usd(Decimal(3)), as_of=later(60)), later(61))
    assert gone.facts.standing is Standing.GONE
    assert gone.facts.usd_per_hour == NO_RATE
    assert gone.facts.as_of == later(60)
    assert sum(gone.facts.amounts.values()) == 30_000
