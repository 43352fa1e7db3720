"""Real nodes that are taken away from a job: it trains as if nothing had happened."""

import time
from datetime import UTC, datetime

import pytest

from tests.e2e import jobs
from tests.e2e.nodes import boot, cut_power, shut_down, until_heard
from tests.e2e.site import FOR_EVER, PAUSE_SECONDS, Site, is_whole
from tests.integration.trainer.traces import differences
from tests.support.jobs.statuses import failures_of

pytestmark = pytest.mark.kind_only("it takes the power or the network of a node, or drains it")

STEPS = 300
HOSTNAME = "kubernetes.io/hostname"


@pytest.mark.short
async def test_the_weights_are_as_if_no_node_had_lost_its_power(
    site: Site, alone: dict[int, str]
) -> None:
    await site.start_run(steps=STEPS)
    await site.until_trains(2)
    node = await site.node_of(rank=0)

    lost_at = time.time()
    await cut_power(site, node)
    try:
        await site.until_trains(1, since=lost_at)
        ended = await site.until_end()
    finally:
        await boot(site, node)
    assert ended["phase"] == "Succeeded", ended["message"]
    assert [x["weights"] for x in await site.trace() if x["step"] == STEPS] == [alone[STEPS]]
    assert differences(await site.trace(), alone) == set()
    assert failures_of(ended) == 0
    # No replacement was lost on the node, which for 40 s looked as if it were well.
    assert ended["interruptions"]["count"] == 1


async def test_a_node_that_shuts_down_takes_no_step_along(
    site: Site, alone: dict[int, str]
) -> None:
    await site.start_run()
    await site.until_trains(2)
    node = await site.node_of(rank=0)

    told_at = time.time()
    try:
        await shut_down(site, node)
        await site.until_trains(1, since=told_at)
    finally:
        back_at = time.time()
        await boot(site, node)
    await site.until_trains(2, since=back_at)
    await site.until(is_whole)
    lines = await site.trace()
    assert len({(line["step"], line["rank"]) for line in lines}) == len(lines)
    assert differences(lines, alone) == set()
    assert failures_of(await site.status()) == 0


async def test_a_node_that_was_cut_off_is_made_do_without_and_taken_back(
    site: Site, alone: dict[int, str]
) -> None:
    await site.start_run()
    await site.until_trains(2)
    node = await site.node_of(rank=0)

    lost_at = time.time()
    site.kind.cut_off(node)
    try:
        await site.until_trains(1, since=lost_at)
    finally:
        back_at = time.time()
        site.kind.reconnect(node)
        await until_heard(site, node, datetime.fromtimestamp(back_at, UTC))
    await site.until_trains(2, since=back_at)
    status = await site.until(is_whole)
    assert differences(await site.trace(), alone) == set()
    assert failures_of(status) == 0


async def test_a_drain_waits_until_a_replacement_has_taken_over(
    site: Site, alone: dict[int, str]
) -> None:
    await site.start_run(workers=1)
    await site.until_trains(1)
    (drained,) = await site.workers()
    node = drained["spec"]["nodeName"]

    options = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=180s")
    try:
        said = await site.kubectl("drain", node, *options)
        drained_at = time.time()
        assert f"evicting pod {site.namespace}/{drained['metadata']['name']}" in said
        assert await site.node_of(rank=0) != node
        await site.until_trains(1, since=drained_at)
    finally:
        await site.kubectl("uncordon", node)
    assert differences(await site.trace(), alone) == set()
    assert failures_of(await site.status()) == 0


async def test_half_of_a_copy_is_lost_and_made_again_beside_its_mate(site: Site) -> None:
    await site.start(
        "parts.py",
        *(jobs.OWN_FOLDER, "--steps", FOR_EVER, "--pause", PAUSE_SECONDS, "--by-torch"),
        workers=4,
        sizes={"min": 2, "max": 4, "perReplica": 2},
        pod=jobs.TOGETHER,  # a copy shares a node
        placement={**site.cluster.placement, "replicaTopology": {"required": HOSTNAME}},
    )
    before = await site.until_trains(4)
    mate = next(line["pid"] for line in reversed(before) if line["rank"] == 2)
    lost = (await site.workers())[3]

    lost_at = time.time()
    await site.kubectl("delete", "pod", lost["metadata"]["name"], "--grace-period=0", "--force")
    await site.until_trains(2, since=lost_at)
    back = await site.until_trains(4, since=lost_at)
    await site.until(is_whole)
    assert mate in {line["pid"] for line in back}, "its process lives on"
    lines = await site.trace()
    states = {(line["step"], line["part"], line["weights"]) for line in lines}
    assert len(states) == len({(step, part) for step, part, _ in states}), "one state of each part"
    homes = {
        (pod["metadata"]["labels"]["spotrun.dev/replica"], pod["spec"]["nodeName"])
        for pod in await site.workers()
        if pod["metadata"]["name"] != lost["metadata"]["name"]
    }
    assert len({replica for replica, _ in homes}) == len(homes) == 2
