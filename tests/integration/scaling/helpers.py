"""Waiting for sizes and reasons, and an autoscaler of the controller manager's."""

from devcluster.client import Manifest, at
from tests.support.cluster.operator_world import GROUP, World

AT_ONCE = {"scaleUpAfter": "0s", "scaleDownAfter": "0s"}
ROOMY = {"cpu": "64", "memory": "64Gi"}


async def until_trained(world: World, size: int) -> Manifest:
    """Wait until a world of that size trains, as `replicas` says."""

    def holds(status: Manifest) -> bool:
        formed = status.get("world", {})
        return bool(formed.get("active")) and size_of(formed["members"]) == size

    job = await world.until_job(holds)
    assert job["spec"]["workers"]["replicas"] == size
    return job


async def until_reason(world: World, reason: str) -> Manifest:
    """Wait until that is the last answer."""
    return await world.until_job(lambda status: status.get("scaling", {}).get("reason") == reason)


async def events_of(world: World, reason: str) -> list[Manifest]:
    """Return the events that give this reason."""
    found = await world.kube.list(at("events", world.namespace, group="events.k8s.io/v1"))
    return [event for event in found if event["reason"] == reason]


def size_of(members: str) -> int:
    """Count the workers of a world."""
    parts = (part.partition("-") for part in members.split(",") if part)
    return sum(int(last or first) - int(first) + 1 for first, _, last in parts)


def an_autoscaler() -> Manifest:
    """Return an autoscaler for two to three workers that use 70 % of the CPU they request."""
    target = {"type": "Utilization", "averageUtilization": 70}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "job"},
        "spec": {
            "scaleTargetRef": {"apiVersion": GROUP, "kind": "TrainingJob", "name": "job"},
            "minReplicas": 2,
            "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }
