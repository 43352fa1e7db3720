"""Faults of nodes and pods."""

import asyncio
from typing import Any

from devcluster.client import ApiError, Manifest, at
from spotrun.api.names import FINALIZER_METERED
from tests.campaign.ground import Ground
from tests.campaign.kinds.kind import Kind
from tests.campaign.plan import Fault
from tests.campaign.scenarios import NODES, add_node, node_name
from tests.plans.safety import worker_id_of

_SOON_SECONDS = 2.0
_TAINT = {"key": "example.com/out", "value": "1"}


def _node(ground: Ground, fault: Fault) -> str:
    return node_name(ground.stage, NODES[fault.target % len(NODES)])


def _doom(ground: Ground, node: str, pods: list[Manifest]) -> None:
    ground.stage.doomed |= {worker_id_of(p) for p in pods if p["spec"].get("nodeName") == node}


async def _silent(ground: Ground, fault: Fault) -> None:
    machine = await ground.machine(_node(ground, fault))
    machine.go_silent()
    await asyncio.sleep(_SOON_SECONDS)
    await machine.come_back()


async def _deleted(ground: Ground, fault: Fault) -> None:
    name = _node(ground, fault)
    await _lose(ground, name)


async def _recreated(ground: Ground, fault: Fault) -> None:
    name = _node(ground, fault)
    await _lose(ground, name)
    await ground.world.nodes.remove(name)
    await add_node(ground.stage, name.rpartition("-")[2])


async def _lose(ground: Ground, name: str) -> None:
    """The machine goes without a word; its Node and its pods are deleted a second later."""
    machine = await ground.machine(name)
    _doom(ground, name, await ground.world.pods())
    await machine.vanish(delete_node=True)
    await asyncio.sleep(1)
    for pod in await ground.world.pods():
        if pod["spec"].get("nodeName") == name:
            _doom(ground, name, [pod])
            await _delete(ground, pod, grace_seconds=0)


async def _tainted(ground: Ground, fault: Fault) -> None:
    name = _node(ground, fault)
    _doom(ground, name, await ground.world.pods())
    await _mark(ground, name, {"taints": [{**_TAINT, "effect": "NoExecute"}]})
    await asyncio.sleep(_SOON_SECONDS)
    _doom(ground, name, await ground.world.pods())
    await _mark(ground, name, {"taints": None})


async def _cordoned(ground: Ground, fault: Fault) -> None:
    name = _node(ground, fault)
    await _mark(ground, name, {"unschedulable": True})
    await asyncio.sleep(_SOON_SECONDS)
    await _mark(ground, name, {"unschedulable": None})


async def _mark(ground: Ground, name: str, spec: Manifest) -> None:
    await _if_there(ground.world.kube.patch(at("nodes", None, name), {"spec": spec}))


async def _delete(ground: Ground, pod: Manifest, grace_seconds: int | None) -> None:
    path = at("pods", ground.world.namespace, pod["metadata"]["name"])
    await _if_there(ground.world.kube.delete(path, grace_seconds=grace_seconds))


async def _if_there(request: Any) -> None:
    try:
        await request
    except ApiError as error:
        if error.status not in {404, 409}:
            raise


async def _chosen(ground: Ground, fault: Fault, *, is_doomed: bool = True) -> Manifest | None:
    pod = await ground.pod(fault.target)
    if pod is not None and is_doomed:
        ground.stage.doomed.add(worker_id_of(pod))
    return pod


async def _force_deleted(ground: Ground, fault: Fault) -> None:
    pod = await _chosen(ground, fault)
    if pod is not None:
        await _delete(ground, pod, grace_seconds=0)


async def _user_deleted(ground: Ground, fault: Fault) -> None:
    pod = await _chosen(ground, fault)
    if pod is not None:
        await _delete(ground, pod, grace_seconds=None)


async def _evicted(ground: Ground, fault: Fault) -> None:
    pod = await _chosen(ground, fault)
    if pod is None:
        return
    name = pod["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    path = at("pods", ground.world.namespace, name, "eviction")
    try:
        await ground.world.kube.create(path, body)
    except ApiError as error:
        if error.status not in {404, 409, 429}:
            raise
        if error.status == 429:  # its PodDisruptionBudget forbids it: the worker stays
            ground.stage.doomed.discard(worker_id_of(pod))


async def _pressed(ground: Ground, fault: Fault) -> None:
    """The kubelet ends it for want of memory."""
    pod = await _chosen(ground, fault)
    if pod is not None:
        machine = ground.world.nodes[pod["spec"]["nodeName"]]
        await machine.evict_for_pressure(ground.world.namespace, pod["metadata"]["name"])


async def _stuck(ground: Ground, fault: Fault) -> None:
    """A pod is deleted while its node is silent, and stays Terminating until that is back."""
    pod = await _chosen(ground, fault)
    if pod is None:
        return
    machine = ground.world.nodes[pod["spec"]["nodeName"]]
    machine.go_silent()
    await _delete(ground, pod, grace_seconds=None)
    await asyncio.sleep(_SOON_SECONDS)
    await machine.come_back()


async def _stripped(ground: Ground, fault: Fault) -> None:
    """Take the finalizer off by hand, and delete the pod by force."""
    pod = await _chosen(ground, fault)
    if pod is None:
        return
    ground.released.add(worker_id_of(pod))
    path = at("pods", ground.world.namespace, pod["metadata"]["name"])
    left = [one for one in pod["metadata"].get("finalizers", ()) if one != FINALIZER_METERED]
    await _if_there(ground.world.kube.patch(path, {"metadata": {"finalizers": left or None}}))
    await _if_there(ground.world.kube.delete(path, grace_seconds=0))


async def _unfinalized(ground: Ground, fault: Fault) -> None:
    """Take the finalizer off by hand, and leave the pod alone."""
    pod = await _chosen(ground, fault, is_doomed=False)
    if pod is not None:
        ground.released.add(worker_id_of(pod))
        path = at("pods", ground.world.namespace, pod["metadata"]["name"])
        await _if_there(ground.world.kube.patch(path, {"metadata": {"finalizers": None}}))


async def _mutated(ground: Ground, fault: Fault) -> None:
    """Change labels and annotations of a pod, and take one away."""
    pod = await _chosen(ground, fault, is_doomed=False)
    if pod is None:
        return
    path = at("pods", ground.world.namespace, pod["metadata"]["name"])
    labels = {"example.com/more": "1", "app.kubernetes.io/name": None}
    change = {"metadata": {"labels": labels, "annotations": {"example.com/note": "x"}}}
    await _if_there(ground.world.kube.patch(path, change))


async def _rejected(ground: Ground, fault: Fault) -> None:
    """A kubelet starts no pods for a while, those that come fail."""
    machine = await ground.machine(_node(ground, fault))
    machine.reject_pods("UnexpectedAdmissionError", "no healthy devices")
    await asyncio.sleep(_SOON_SECONDS)
    machine.take_pods()


KINDS: dict[str, Kind] = {
    "node_silent": Kind(_silent),
    "node_deleted": Kind(_deleted),
    "node_recreated": Kind(_recreated),
    "node_tainted": Kind(_tainted),
    "node_cordoned": Kind(_cordoned),
    "pod_force_deleted": Kind(_force_deleted),
    "pod_deleted": Kind(_user_deleted),
    "pod_evicted": Kind(_evicted),
    "pod_pressed": Kind(_pressed),
    "pod_stuck": Kind(_stuck),
    "pod_stripped": Kind(_stripped),
    "pod_finalizer_removed": Kind(_unfinalized),
    "pod_mutated": Kind(_mutated),
    "pod_rejected": Kind(_rejected),
}
