"""The stage itself: tests that share a cluster do not see each other's workers."""

from devcluster.client import at
from tests.support.cluster.operator_world import World


async def test_what_another_test_left_on_a_node_is_none_of_this_ones_workers(
    world: World,
) -> None:
    await world.nodes.add("a", capacity={"cpu": "64", "memory": "64Gi"})
    await world.create_job(workers={"min": 1, "max": 1, "replicas": 1})
    async with world.operator():
        await world.until_phase("Running")
        name = f"left-{world.namespace}"
        left = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "labels": {"spotrun.dev/job": "job", "spotrun.dev/worker-id": "0"},
            },
            "spec": {"nodeName": "a", "containers": [{"name": "trainer", "image": "x"}]},
        }
        pods = at("pods", "default")
        await world.kube.create(pods, left)
        try:
            await world.kube.until(
                pods,
                name,
                lambda pod: pod is not None and pod["status"].get("phase") == "Running",
                timeout_seconds=60,
            )
            ours = world.agent(0).context.pod["metadata"]["namespace"]
        finally:
            await world.kube.delete(at("pods", "default", name), grace_seconds=0)
    assert ours == world.namespace
