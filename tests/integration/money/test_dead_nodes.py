"""A worker is lost, and its node is dead but not removed: its charge ends, and nothing falls."""

from fractions import Fraction

import pytest

from devcluster.cluster import Cluster
from tests.meter.dead_node import DEATHS, Job, Node, die

CENT = Fraction(1, 100)


@pytest.mark.parametrize(("job", "node"), DEATHS[:3])
async def test_what_is_said_of_a_job_on_a_dead_node_is_what_the_meter_says(
    cluster: Cluster, crds: None, job: Job, node: Node
) -> None:
    death = await die(cluster, job, node, declared=True)
    assert max(death.errors_usd) < CENT
    assert max(death.falls_usd) == 0
    assert death.final["cost"]["usdPerHour"] == "0"
