"""A script with nothing but init_process_group and its own snapshots, under the same losses."""

import time

import pytest

from tests.e2e import jobs
from tests.e2e.nodes import cut_power, replace
from tests.e2e.site import FOR_EVER, PAUSE_SECONDS, Site
from tests.support.jobs.statuses import failures_of

SAVE_EVERY = 5


@pytest.mark.kind_only("it takes the power of a node")
async def test_a_plain_script_goes_on_from_its_own_snapshot(site: Site) -> None:
    told = ("--steps", FOR_EVER, "--pause", PAUSE_SECONDS, "--save-every", SAVE_EVERY)
    await site.start("snapshots.py", jobs.FOLDER, *told)
    await site.until_trains(2)
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
