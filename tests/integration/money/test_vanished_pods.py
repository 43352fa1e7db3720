"""A pod is gone without a word of when its containers ended: nothing that was said falls."""

from fractions import Fraction

from devcluster.cluster import Cluster
from tests.meter.vanished_pod import vanish

CENT = Fraction(1, 100)


async def test_a_worker_whose_pod_vanishes_costs_what_the_meter_says(
    cluster: Cluster, crds: None
) -> None:
    loss = await vanish(cluster, is_watched=True)
    assert max(loss.errors_usd) < CENT
    assert max(loss.falls_usd) == 0
    assert Fraction(loss.final["cost"].get("correctedUsd", "0")) > -CENT


async def test_one_that_goes_while_no_operator_watches_costs_what_was_said_last(
    cluster: Cluster, crds: None
) -> None:
    loss = await vanish(cluster, is_watched=False)
    assert max(loss.falls_usd) == 0
    assert Fraction(loss.final["cost"].get("correctedUsd", "0")) > -CENT
