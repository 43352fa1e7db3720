"""A job whose load is steady makes no change of its size twice, whatever its curve.

`make test-deep` tries hundreds of curves, and `bench/scaling.py` a thousand for five hours each.
"""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bench.closed_loop.curves import Curve
from bench.closed_loop.loop import Resize
from bench.closed_loop.ours import Wishes
from bench.closed_loop.random_jobs import num_repeated, oscillations
from bench.closed_loop.scenes import Costs
from spotrun.simulate.scenario import Rules

QUICK = Costs(3.8, 0.5, Rules(changeover_seconds=30.0))
HOURS = 0.5  # enough for several changes, each of which takes five minutes or less
TEMPTING = Curve("tempting", microbatch_seconds=0.05, ring_seconds=0.2, hop_seconds=0.003)
"""Nothing speaks against sixteen workers at four, and much speaks for four at sixteen."""


def shares(most: float) -> st.SearchStrategy[float]:
    return st.one_of(st.just(0.0), st.floats(0.0, most))


curves = st.builds(
    Curve,
    name=st.just("random"),
    microbatches=st.sampled_from((4, 8, 16, 32, 64, 1000)),
    microbatch_seconds=st.floats(0.05, 0.5),
    serial_seconds=shares(2.0),
    ring_seconds=shares(4.0),
    hop_seconds=shares(0.05),
    overlap=st.floats(0.0, 1.0),
    input_seconds=shares(8.0),
)
wishes = st.builds(
    Wishes,
    hour_worth_usd=st.one_of(st.none(), st.floats(0.0, 200.0)),
    min_efficiency=st.sampled_from((0.0, 0.6)),
).filter(lambda wish: wish.min_efficiency or wish.hour_worth_usd is not None)


@example(curve=TEMPTING, wish=Wishes(hour_worth_usd=20.0, min_efficiency=0.0), seed=0)
@settings(max_examples=settings().max_examples // 3)
@given(curve=curves, wish=wishes, seed=st.integers(0, 99))
def test_a_steady_job_makes_no_change_of_size_twice(curve: Curve, wish: Wishes, seed: int) -> None:
    assert oscillations(curve, wish, QUICK, seed, HOURS) == 0


@pytest.mark.parametrize(
    ("sizes", "repeated"),
    [([1], 0), ([1, 2, 4, 2], 0), ([1, 2, 1, 2], 1), ([4, 2, 4, 2, 4], 2)],
)
def test_a_change_made_twice_is_counted(sizes: list[int], repeated: int) -> None:
    resizes = [Resize(0.0, before, after) for before, after in pairwise(sizes)]
    assert num_repeated(resizes) == repeated
