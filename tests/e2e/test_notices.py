"""Nodes that say they are going away, in the words of each platform."""

import time

import pytest

from devcluster.notices import Dialect
from tests.e2e.jobs import TOGETHER
from tests.e2e.nodes import cut_power, notice, replace
from tests.e2e.site import Site
from tests.integration.trainer.traces import differences
from tests.support.jobs.statuses import failures_of

pytestmark = pytest.mark.kind_only("it writes notices on nodes, and takes these away")

DIALECTS = (Dialect.NTH_SPOT, Dialect.KARPENTER_DELETION, Dialect.AUTOSCALER)


async def leave(site: Site, dialect: Dialect) -> None:
    """The node of rank 0 is given notice, ends once all workers have left, and is replaced."""
    node = await site.node_of(rank=0)
    try:
        await notice(site, node, dialect)
        await site.until_left(node)
        left_at = time.time()
    finally:
        await cut_power(site, node)
        await replace(site, node)
    await site.until_trains(2, since=left_at)


@pytest.mark.short
async def test_workers_leave_before_their_nodes_do(site: Site, alone: dict[int, str]) -> None:
    await site.start_run(pod=TOGETHER)
    await site.until_trains(2)

    for dialect in DIALECTS:
        await leave(site, dialect)

    lines = await site.trace()
    assert len({(line["step"], line["rank"]) for line in lines}) == len(lines)
    sizes = [line["size"] for line in lines]
    assert set(sizes[sizes.index(2) :]) == {2}
    assert differences(lines, alone) == set()
    assert failures_of(await site.status()) == 0
