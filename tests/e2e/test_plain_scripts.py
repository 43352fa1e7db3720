"""A script with nothing but init_process_group and its own snapshots, under the same losses."""

import time

import pytest

from devcluster.client import Manifest
from tests.e2e import jobs
from tests.e2e.nodes import cut_power, replace
from tests.e2e.site import FOR_EVER, PAUSE_SECONDS, Site
from tests.support.jobs.statuses import failures_of

SAVE_EVERY = 5


@pytest.mark.kind_only("it takes the power of a node")
@pytest.mark.parametrize("is_stock", [False, True], ids=["own image", "stock image"])
async def test_a_plain_script_goes_on_from_its_own_snapshot(site: Site, is_stock: bool) -> None:
    """Into an image without spotrun the operator brings it."""
    container: Manifest = {"image": site.stock} if is_stock else {}
    told = ("--steps", FOR_EVER, "--pause", PAUSE_SECONDS, "--save-every", SAVE_EVERY)
    await site.start("snapshots.py", jobs.FOLDER, *told, container=container)
    await site.until_trains(2)
    inits = [worker["spec"].get("initContainers", []) for worker in await site.workers()]
    assert [len(those) for those in inits] == [is_stock, is_stock]
    node = await site.node_of(rank=0)

    lost_at = time.time()
    await cut_power(site, node)
    try:
        alone = await site.until_trains(1, since=lost_at)
    finally:
        joined_at = time.time()
        await replace(site, node)
    whole = await site.until_trains(2, since=joined_at)

    for lines in (alone, whole):
        assert lines[0]["step"] % SAVE_EVERY == 1, "it begins with a snapshot"
    assert failures_of(await site.status()) == 0
