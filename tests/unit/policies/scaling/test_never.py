"""What never happens to a job's size, whatever its steps look like."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spotrun.api.spec.workers import TargetResource
from spotrun.policies.scaling.facts import Gauge
from spotrun.policies.scaling.size_decision import choose_size
from spotrun.state.stored.scaling import NO_SCALING
from tests.support.jobs.builders import NOW
from tests.support.jobs.scaling_lives import Life, communicating, facts_at, linear, step_at

TO_16 = range(1, 17)

SIZES = st.one_of(
    st.tuples(st.integers(1, 6), st.integers(0, 40)).map(lambda t: range(t[0], sum(t) + 1)),
    st.sampled_from([(2, 4, 8, 16, 32), (1, 3, 9), (8,)]),
)
PARTS = st.tuples(
    st.floats(0, 0.3), st.floats(0, 3), st.floats(0, 0.1), st.floats(0, 3)
)  # serial, communicating, and growing with the size; waiting for data
FACTS = st.fixed_dictionaries(
    {
        "hour_worth_usd": st.sampled_from([None, 0.0, 0.5, 5.0, 50.0]),
        "min_efficiency": st.sampled_from([0.1, 0.6, 1.0]),
        "microbatches": st.sampled_from([None, 1, 12, 64]),
        "processes": st.sampled_from([1, 8]),
        "usd_per_hour": st.sampled_from([None, 1.0]),
        "free": st.sampled_from([None, 2]),
    }
)


@given(sizes=SIZES, parts=PARTS, facts=FACTS, data=st.data())
def test_a_steady_load_is_never_sized_to_and_fro(
    sizes: Sequence[int], parts: tuple[float, ...], facts: dict[str, Any], data: st.DataObject
) -> None:
    serial, ring, growing, wait = parts

    def curve(size: int) -> tuple[float, float, float]:
        busy = 10 * ((1 - serial) / size + serial)
        return busy, wait, ring * (size - 1) / size + growing * (size - 1)

    start = data.draw(st.sampled_from(list(sizes)))
    life = Life(curve, sizes, start, facts)
    life.live(60)
    assert set(life.had) <= set(sizes)
    changes = list(pairwise([start, *life.lasting]))
    assert len(set(changes)) == len(changes), f"a change is made twice: {changes}"
    before = life.lasting
    life.live(14)
    assert life.lasting == before, "it has come to rest"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0, 1), st.integers(0, 4))
def test_whatever_is_told_the_size_is_allowed(
    reported: list[float], compute: float, silent: int
) -> None:
    gauge = Gauge(TargetResource.CPU, 0.7, reported=tuple(reported), silent=silent)
    step = replace(step_at(linear, 4), compute=compute, data=1 - compute, communicate=0.0)
    facts = facts_at(
        linear,
        4,
        (2, 4, 8),
        gauges=(gauge,),
        step=step,
        up_after_seconds=0.0,
        down_after_seconds=0.0,
    )
    assert choose_size(facts, NO_SCALING, NOW).size in {2, 4, 8}


@given(st.floats(0.3, 1.0), st.floats(0.3, 1.0))
def test_more_utilization_never_asks_for_fewer_workers(one: float, other: float) -> None:
    def size(used: float) -> int:
        facts = facts_at(
            communicating,
            4,
            TO_16,
            up_after_seconds=0.0,
            down_after_seconds=0.0,
            gauges=(Gauge(TargetResource.CPU, 0.7, reported=(used,)),),
        )
        return choose_size(facts, NO_SCALING, NOW).size

    low, high = sorted((one, other))
    assert size(low) <= size(high)
