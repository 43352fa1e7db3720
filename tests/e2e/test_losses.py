"""Real nodes that are taken away from a job."""

from devcluster.client import Manifest, at
from tests.e2e.site import Site, durable_step, failures_of, is_whole


async def until_ready(site: Site, node: str) -> None:
    def ready(found: Manifest | None) -> bool:
        conditions = (found or {}).get("status", {}).get("conditions", [])
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    await site.kube.until(at("nodes"), node, ready, timeout_seconds=120)


async def test_a_job_goes_on_when_a_node_loses_its_power(site: Site) -> None:
    await site.train(steps=1_500, workers=2, every="5s")
    before = await site.until(lambda s: is_whole(s) and durable_step(s) > 0)
    nodes = [worker["spec"]["nodeName"] for worker in await site.workers()]
    node = nodes[0]

    site.kind.cut_power(node)
    try:
        await site.until(lambda s: s["world"]["generation"] > before["world"]["generation"])
        ended = await site.until_end()
    finally:
        site.kind.give_power(node)
        await until_ready(site, node)
    assert ended["phase"] == "Succeeded", ended["message"]
    assert durable_step(ended) == 1_500
    assert failures_of(ended) == 0
    # No replacement was lost on the node, which for 40 s looked as if it were well.
    assert ended["interruptions"]["count"] == nodes.count(node)


async def test_a_drain_waits_until_a_replacement_has_taken_over(site: Site) -> None:
    await site.train(steps=1_500, workers=2, every="5s")
    before = await site.until(lambda s: is_whole(s) and durable_step(s) > 0)
    drained, *_ = await site.workers()
    node = drained["spec"]["nodeName"]

    options = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=180s")
    try:
        said = await site.kubectl("drain", node, *options)
        after = await site.status()
        assert f"evicting pod {site.namespace}/{drained['metadata']['name']}" in said
        assert after["world"]["generation"] > before["world"]["generation"]
        ended = await site.until_end()
    finally:
        await site.kubectl("uncordon", node)
    assert ended["phase"] == "Succeeded", ended["message"]
    assert failures_of(ended) == 0
