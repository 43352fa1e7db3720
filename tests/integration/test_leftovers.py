"""The cluster that tests share: what one of them makes in it, no other one sees."""

import uuid

from devcluster.client import ApiError, Manifest, at
from devcluster.cluster import Cluster
from spotrun.api.names import FINALIZER_METERED
from tests.integration.leftovers import swept
from tests.support.cluster.operator_world import GROUP, World

TRAINER = {"name": "trainer", "image": "x", "args": ["train.py"]}


async def leave_things(world: World, namespace: str) -> set[str]:
    """One of each kind, the pod held by a finalizer whose keeper is gone; returns their paths."""
    name = f"left-{uuid.uuid4().hex[:8]}"
    workers = {"template": {"spec": {"containers": [TRAINER]}}}
    things: dict[str, Manifest] = {
        at("pods", namespace): {"spec": {"containers": [TRAINER]}},
        at("trainingjobs", namespace, group=GROUP): {
            "apiVersion": GROUP,
            "kind": "TrainingJob",
            "spec": {"workers": workers},
        },
        at("nodes"): {},
        at("capacitypools", group=GROUP): {
            "apiVersion": GROUP,
            "kind": "CapacityPool",
            "spec": {"capacity": "Spot", "instanceTypes": ["g5.xlarge"]},
        },
    }
    for path, body in things.items():
        held = {"finalizers": [FINALIZER_METERED]} if "/pods" in path else {}
        await world.kube.create(path, {**body, "metadata": {"name": name, **held}})
    return {f"{path}/{name}" for path in things}


async def left_of(world: World, paths: set[str]) -> set[str]:
    """Which of them are still there."""
    left = set()
    for path in paths:
        try:
            await world.kube.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
        else:
            left.add(path)
    return left


async def test_what_a_test_makes_in_a_namespace_of_nobody_is_removed(
    cluster: Cluster, world: World
) -> None:
    with swept(cluster):
        made = await leave_things(world, "default")
        assert await left_of(world, made) == made
    assert await left_of(world, made) == set()


async def test_what_a_test_makes_in_its_own_namespace_is_removed(
    cluster: Cluster, world: World
) -> None:
    with swept(cluster):
        namespace = f"left-{uuid.uuid4().hex[:8]}"
        await world.kube.create(at("namespaces"), {"metadata": {"name": namespace}})
        account = at("serviceaccounts", namespace)
        await world.kube.until(account, "default", lambda one: one is not None)
        made = await leave_things(world, namespace)
    assert await left_of(world, made) == set()
    await world.kube.delete(at("namespaces", None, namespace))


async def test_what_lies_in_the_namespace_of_a_longer_fixture_stays(
    cluster: Cluster, world: World
) -> None:
    with swept(cluster):
        made = await leave_things(world, world.namespace)
    assert await left_of(world, made) == {path for path in made if world.namespace in path}
