"""Whatever happens, operator and meter agree: to the cent all the time, in the end exactly."""

from collections.abc import Sequence
from fractions import Fraction

import pytest

from devcluster.cluster import Cluster
from tests.meter.lives import KILLED, WATCHED, Trouble, live

CENT = Fraction(1, 100)
ROUNDING = Fraction(1, 10**9)


@pytest.mark.parametrize(
    ("troubles", "final_usd"),
    [
        pytest.param(KILLED, ROUNDING, id="killed at random writes"),
        pytest.param(WATCHED, CENT, id="nobody says when it happened"),
    ],
)
async def test_an_independent_meter_agrees_with_what_is_said(
    cluster: Cluster, crds: None, troubles: Sequence[Trouble], final_usd: Fraction
) -> None:
    result = await live(cluster, seed=1, troubles=troubles)
    assert max(result.costs_usd) > CENT, "something was spent"
    assert max(result.errors_usd) < CENT
    assert max(result.final_errors_usd) < final_usd
    assert max(result.pool_errors_usd) < final_usd
