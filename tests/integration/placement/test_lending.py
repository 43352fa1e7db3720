"""Workers that are lent: the real scheduler gives their place to a pod of higher priority."""

from collections.abc import AsyncIterator

import pytest

from devcluster.client import Manifest, at
from tests.integration.placement.test_room import a_pod_of_others
from tests.integration.spot.helpers import add_node, create_job, until_training
from tests.support.cluster.operator_world import World

CLASSES = at("priorityclasses", group="scheduling.k8s.io/v1")
VALUES = {"lent": -100, "inference": 1000}


@pytest.fixture
async def classes(world: World) -> AsyncIterator[dict[str, str]]:
    """The names of PriorityClasses, by what they are for."""
    names = {role: f"{role}-{world.namespace}" for role in VALUES}
    for role, value in VALUES.items():
        body = {"metadata": {"name": names[role]}, "value": value}
        await world.kube.create(CLASSES, body)
    yield names
    for name in names.values():
        await world.kube.delete(f"{CLASSES}/{name}")


async def test_a_lent_worker_gives_its_node_to_a_pod_of_higher_priority_and_comes_back(
    world: World, classes: dict[str, str]
) -> None:
    for name in ("a", "b"):
        await add_node(world, name)
    lend = {"priorityClassName": classes["lent"], "atLeast": 1}
    async with world.operator():
        await create_job(world, 2, placement={"lend": lend})
        await until_training(world, 0, 1)
        kept, lent = sorted(await world.pods(), key=_is_lent)
        lent_node = lent["spec"]["nodeName"]
        await world.kube.create(at("pods", world.namespace), inference(classes["inference"]))
        other = await _until_on_a_node(world)
        shrunk = await until_training(world, 0)
        await world.kube.delete(at("pods", world.namespace, "other"), grace_seconds=0)
        grown = await until_training(world, 0, 2)
        now = {pod["metadata"]["name"]: _is_lent(pod) for pod in await world.pods()}
    assert (_is_lent(kept), _is_lent(lent)) == (False, True)
    assert "priorityClassName" not in kept["spec"]
    assert other["spec"]["nodeName"] == lent_node
    assert shrunk["interruptions"]["count"] == 1
    assert "lostSteps" not in grown["interruptions"]
    assert now[kept["metadata"]["name"]] is False, "it was kept"
    assert sorted(now.values()) == [False, True]


def inference(priority_class: str) -> Manifest:
    """A pod that needs a node for itself, and may take one."""
    pod = a_pod_of_others("")
    del pod["spec"]["nodeName"]
    pod["spec"]["priorityClassName"] = priority_class
    return pod


def _is_lent(pod: Manifest) -> bool:
    return "spotrun.dev/lent" in pod["metadata"]["labels"]


async def _until_on_a_node(world: World) -> Manifest:
    def on(pod: Manifest | None) -> bool:
        return pod is not None and bool(pod["spec"].get("nodeName"))

    found = await world.kube.until(at("pods", world.namespace), "other", on, timeout_seconds=60)
    assert found is not None
    return found
