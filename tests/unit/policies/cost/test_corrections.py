"""No counter that Prometheus reads of a job's money falls, whatever is found out later.

It takes a fall for a restart, and counts the whole sum once more.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.core import Metric

from spotrun.api.capacitypool import Capacity
from spotrun.api.cost import MOST_POOLS
from spotrun.metrics.money import money_families
from spotrun.money.units import Usd
from spotrun.policies.cost.corrections import with_parts
from spotrun.state.actions import Decision
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Node, PodEnd, PodPhase
from spotrun.state.stored.cost import NO_COST
from spotrun.wire import Progress
from tests.support.jobs.builders import NOW, a_job, ago, later
from tests.support.jobs.published_jobs import job as published
from tests.support.jobs.stored_state import cost_of, sums_of
from tests.support.money.priced_nodes import a_node, at_work

SPOT = replace(a_node("b", capacity=Capacity.SPOT), pool="spot")
MOVED = replace(SPOT, pool="other")
UNREACHABLE = replace(SPOT, ready=False, unreachable_at=NOW)
GONE = replace(UNREACHABLE, gone=True, gone_at=later(60))
FELL = replace(SPOT, prices=a_node(changes=((ago(600), "1"),)).prices)


def looked_at(before: JobState, now: datetime, node: Node, **pod: Any) -> Decision:
    """What is decided where the first worker trains on, and the second is as it is said."""
    job = a_job(2, min=1).with_facts(written_seconds=600.0).training(0, 1)
    job = job.with_status(next_worker_id=2).with_state(before)
    step = pod.pop("step", 100 + int((now - NOW).total_seconds()) // 10)
    reported = Progress(1, step, 2000, step_seconds=10.0)
    job = at_work(job, 0, node=a_node("a"), ready=True, arrived=1, progress=reported)
    return at_work(job, 1, node=node, **{"ready": True, "arrived": 1, **pod}).decide(now)


def an_end(moment: datetime) -> dict[str, Any]:
    return {"phase": PodPhase.FAILED, "ended_at": moment, "end": PodEnd(143, "Error")}


def counters(status: JobState) -> dict[tuple[str, ...], float]:
    """All that must not fall, by name and labels."""
    families: list[Metric] = list(money_families([replace(published(pods=0), status=status)]))
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        if family.type == "counter"
        for sample in family.samples
    }


def test_what_a_pool_turns_out_to_have_cost_less_is_a_correction_beside_its_counter() -> None:
    first = looked_at(JobState(), NOW, SPOT).status
    ended = looked_at(first, later(360), SPOT, **an_end(ago(1800))).status
    cost = cost_of(ended)
    assert (cost.spot_usd, cost.spot_corrected_usd) == ("0.5", "-0.5")
    pools = [(one.pool, one.usd, one.corrected_usd) for one in cost.by_pool or ()]
    assert pools == [("", "1.1", None), ("spot", "0.5", "-0.5")]
    # The first worker has cost as much meanwhile as the sum would have fallen by, less 40 cents.
    assert (cost.usd, cost.corrected_usd) == ("1.6", "-0.4")
    reported = counters(ended)
    assert [v for key, v in reported.items() if key[0].endswith("spot_cost_usd_total")] == [1.0]
    by_pool = {k[-1]: v for k, v in reported.items() if k[0].endswith("pool_cost_usd_total")}
    assert by_pool == {"": 1.1, "spot": 1.0}


def test_a_pool_that_turns_out_to_have_cost_nothing_keeps_its_counter() -> None:
    first = looked_at(JobState(), NOW, SPOT).status
    never = looked_at(first, later(1), SPOT, **an_end(NOW - timedelta(hours=2))).status
    [_, spot] = cost_of(never).by_pool or ()
    assert (spot.pool, spot.usd, spot.corrected_usd) == ("spot", "0", "-1")
    assert [v for key, v in counters(never).items() if key[-1] == "spot"] == [1.0]


def test_steps_that_were_useful_stay_so_where_less_turns_out_to_have_been_paid() -> None:
    began = a_job(2, min=1).training(0, 1).with_world("0,1", formed=3600.0, store="x:1")
    first = looked_at(began.status, NOW, SPOT, step=360).status
    less = looked_at(first, later(10), SPOT, step=361, **an_end(ago(3600))).status
    sums = (sums_of(first), sums_of(less))
    assert [one.useful_usd for one in sums] == ["2", "2"]
    assert (cost_of(less).usd, cost_of(less).goodput) == ("1.0028", "100%")


@pytest.mark.parametrize("num_new", [1, MOST_POOLS, MOST_POOLS + 2])
def test_pools_that_have_cost_nothing_give_way_where_there_is_no_room(num_new: int) -> None:
    old = {f"old-{n}": Usd(1) for n in range(MOST_POOLS)}
    new = {f"new-{n}": Usd(1) for n in range(num_new)}
    before = with_parts(NO_COST, Usd(), old)
    shown = with_parts(before, Usd(), new)
    assert len(shown.by_pool or ()) <= MOST_POOLS + 2
    assert new.keys() <= {one.pool for one in shown.by_pool or ()}


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 7200),
            st.sampled_from([SPOT, MOVED, UNREACHABLE, GONE, FELL]),
            st.sampled_from([None, -7200, -1800, 0, 60, 1800]),
            st.sampled_from([0.5, 45.0]),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_no_counter_falls(seen: list[tuple[int, Node, int | None, float]]) -> None:
    status = looked_at(JobState(), NOW, SPOT).status
    before = counters(status)
    for seconds, node, end, heard in sorted(seen, key=lambda one: one[0]):
        now = later(seconds)
        pod = an_end(min(later(end), now)) if end is not None else {"heard": heard}
        status = looked_at(status, now, node, **pod).status
        reported = counters(status)
        assert before.keys() <= reported.keys()
        assert {key for key in before if reported[key] < before[key] - 1e-9} == set()
        before = reported
