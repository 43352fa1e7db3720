"""What traffic between zones may have cost: shown apart, and in no sum of what was spent."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.api.cost import Cost
from spotrun.money.other_costs.transfer import Place, ring_usd
from spotrun.money.shares import Resources
from spotrun.money.units import Usd
from spotrun.policies.placement.ranking import rank
from spotrun.state.actions import Decision
from spotrun.state.replicas import along_the_ring
from spotrun.state.snapshot import Node
from spotrun.state.stored.training import Pace
from spotrun.wire import MOST_STEPS, Progress
from tests.support.jobs.builders import JobBuilder, a_job, a_worker, later
from tests.support.jobs.stored_state import cost_of
from tests.support.money.pool_builders import a_spot_pool, on_market
from tests.support.money.priced_nodes import a_node, at_work

GB = 10**9
# Steps of 10 s that send 10 GB; of two workers in two zones each sends it all to the other.
STEP_USD = 2 * 10 * 0.02
STEPS_PER_HOUR = 360


def at_step(step: int, job: JobBuilder | None = None, *zones: str, **facts: Any) -> JobBuilder:
    zones = zones or ("us-east-1a", "us-east-1b")
    reported = Progress(1, step, total=1000, step_seconds=10.0)
    worker_ids = range(len(zones))
    job = job or a_job(len(zones)).training(*worker_ids)
    for worker_id, zone in zip(worker_ids, zones, strict=True):
        node = a_node(f"n{worker_id}", zone=zone, region=zone[:-1])
        job = at_work(job, worker_id, node=node, ready=True, arrived=1, progress=reported)
    return job.with_facts(written_seconds=600.0, **{"sync_bytes_per_step": 10.0 * GB, **facts})


def lives(*steps: int, zones: tuple[str, ...] = (), **facts: Any) -> Decision:
    """What is said after looks at these steps, a quarter of an hour after each other."""
    job = at_step(steps[0], None, *zones, **facts)
    decision = job.decide()
    for number, step in enumerate(steps[1:], start=1):
        job = at_step(step, job.with_state(decision.status), *zones, **facts)
        decision = job.decide(later(900 * number))
    return decision


def cost(decision: Decision) -> Cost:
    return cost_of(decision.status)


def sent(decision: Decision) -> float | None:
    usd = cost(decision).estimated_transfer_usd
    return None if usd is None else float(usd)


def test_what_steps_send_between_zones_is_estimated_and_not_in_what_was_spent() -> None:
    near, far = lives(100, 190, zones=("us-east-1a", "us-east-1a")), lives(100, 190)
    assert sent(far) == pytest.approx(90 * STEP_USD)
    apart = cost(far).model_copy(update={"estimated_transfer_usd": None})
    assert apart == cost(near)


def test_steps_that_are_done_again_are_sent_again() -> None:
    assert sent(lives(100, 190, 100, 190)) == pytest.approx(2 * 90 * STEP_USD)


@pytest.mark.parametrize(
    ("zones", "facts"),
    [
        pytest.param(("us-east-1a", "us-east-1a"), {}, id="in one zone"),
        pytest.param(("rack-a", "rack-b"), {}, id="of unknown price"),
        pytest.param((), {"sync_bytes_per_step": None}, id="of unknown size"),
    ],
)
def test_without_known_traffic_nothing_is_said(
    zones: tuple[str, ...], facts: dict[str, Any]
) -> None:
    assert sent(lives(100, 190, zones=zones, **facts)) is None


def test_workers_that_hold_one_copy_of_a_model_add_up_with_their_likes() -> None:
    zones = ("us-east-1a", "us-east-1a", "us-east-1b", "us-east-1b")
    job = a_job(4, min=2, perReplica=2).training(*range(4))
    decision = at_step(100, job, *zones).decide()
    later_on = at_step(190, job.with_state(decision.status), *zones).decide(later(900))
    # Two rings of two workers, each worker with one of the other copy.
    assert sent(later_on) == pytest.approx(90 * 2 * STEP_USD)


def test_no_node_sends_more_than_a_network_carries() -> None:
    most = lives(1, MOST_STEPS, sync_bytes_per_step=float(MOST_STEPS))
    assert sent(most) == pytest.approx(900 * 400 * 0.02 * 2)


def test_a_job_that_is_held_back_sends_nothing() -> None:
    job = at_step(100)
    first = job.decide()
    held = replace(job, spec=job.spec.model_copy(update={"suspend": True}))
    held = at_step(190, held.with_state(first.status))
    assert sent(held.decide(later(900))) is None


@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=7),
    st.integers(1, 10**10),
    st.sampled_from(("us-east-1", "us-central1-")),
    st.sampled_from((1, 8)),
)
def test_placement_weighs_what_a_zone_more_would_add_to_what_is_shown(
    letters: list[str], num_bytes: int, prefix: str, processes: int
) -> None:
    region, size = prefix.removesuffix("-"), len(letters) + 1
    nodes = [
        a_node(f"n{n}", zone=f"{prefix}{letter}", region=region)
        for n, letter in enumerate((*letters, letters[0], "d"))
    ]
    job = a_job(size)
    for worker_id, node in enumerate(nodes[:-2]):
        job = at_work(job, worker_id, node=node)
    far = a_spot_pool("far", zone=f"{prefix}d", region=region)
    pace = Pace(step_seconds=Decimal(10), workers=len(letters))
    job = on_market(job.with_status(pace=pace), far, sync_bytes_per_step=float(num_bytes))
    job = job.with_facts(requests=Resources(gpus=processes))  # a process on each
    [weighed] = rank(job.view(), job.status, [far], new=1)

    near, spread = (ring([*nodes[:-2], last], processes, num_bytes) for last in nodes[-2:])
    added = float((spread - near).exact) * STEPS_PER_HOUR
    assert weighed.score.transfer_usd_per_hour == pytest.approx(added)


def ring(nodes: list[Node], processes: int, num_bytes: int) -> Usd:
    """What one step of workers on these nodes, in the order of their ranks, is said to cost."""
    workers = along_the_ring(a_worker(n, node=node) for n, node in enumerate(nodes))
    at = [worker.node for worker in workers if worker.node is not None]
    places = [Place(node.region, node.zone) for node in at]
    return ring_usd(places, len(at) * processes, num_bytes)
