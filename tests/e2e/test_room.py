"""Jobs that ask for more than there is."""

from typing import Any

import pytest

from tests.e2e.kind.nodes import SPOT_NODES
from tests.e2e.nodes import advertise
from tests.e2e.site import FOR_EVER, PAUSE_SECONDS, Site, is_whole

GPU = "nvidia.com/gpu"
WAITING = {"WaitingForCapacity", "WaitingForGang"}


@pytest.mark.kind_only("it needs a cluster with room for one job and not for two")
async def test_a_job_waits_until_another_one_gives_its_nodes_back(site: Site) -> None:
    both: dict[str, Any] = {"workers": 2, "sizes": {"min": 2}}
    for_long = ("--steps", FOR_EVER, "--pause", PAUSE_SECONDS)
    await site.start("plain_loop.py", *for_long, name="first", **both)
    await site.until(is_whole, "first")
    await site.start("plain_loop.py", "--steps", 5, name="second", **both)
    await site.until(lambda s: s.get("reason") in WAITING, "second")
    assert is_whole(await site.status("first"))

    await site.kubectl("delete", "trainingjob", "first", "--timeout=180s")

    ended = await site.until_end("second")
    assert ended["phase"] == "Succeeded", ended["message"]


@pytest.mark.kind_only("it has a node offer a GPU that it has not")
async def test_a_worker_gets_the_node_that_has_its_gpu(site: Site) -> None:
    node, asked = SPOT_NODES[-1], {"limits": {GPU: "1"}}
    await site.start("plain_loop.py", "--steps", 5, workers=1, container={"resources": asked})
    await site.until(lambda s: s.get("reason") == "WaitingForCapacity")

    await advertise(site, node, GPU, 1)
    try:
        ended = await site.until_end()
    finally:
        await advertise(site, node, GPU, 0)
    assert ended["phase"] == "Succeeded", ended["message"]
    assert [pod["spec"]["nodeName"] for pod in await site.workers()] == [node]
