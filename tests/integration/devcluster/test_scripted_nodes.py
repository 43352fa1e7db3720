"""What befalls machines, as a real API server and its controllers see it."""

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

from devcluster.client import ApiError, Manifest, at
from devcluster.cluster import Cluster
from devcluster.kubelet.api import LEASES
from devcluster.kubelet.lifecycle import Timing
from devcluster.kubelet.objects import LEASE_NAMESPACE
from devcluster.kubelet.runtime import Exit
from devcluster.nodes import Machine, Nodes
from devcluster.notices import Dialect
from devcluster.platforms import Platform, pool_labels
from devcluster.scripted import Script, Scripted

PODS = at("pods", "default")
NODES = at("nodes")
# Shutting down, the trainer has time to write a checkpoint and to say so.
CHECKPOINTING = Script(stop_seconds=0.1, stop_exit=Exit(1, message='{"reason": "preempted"}'))


@pytest.fixture
async def nodes(cluster: Cluster) -> AsyncIterator[Nodes]:
    async with Nodes(cluster.admin, runtime=Scripted(CHECKPOINTING)) as nodes:
        yield nodes


@pytest.fixture
async def machine(nodes: Nodes) -> Machine:
    return await nodes.add(f"n-{uuid.uuid4().hex[:8]}")


@pytest.fixture(scope="module")
def watchful() -> Iterator[Cluster]:
    """A cluster that gives up nodes after 4 s instead of 50."""
    flags = ("--node-monitor-grace-period=4s", "--node-monitor-period=1s")
    with Cluster(extra_flags={"kube-controller-manager": flags}) as cluster:
        yield cluster


async def start_pod(nodes: Nodes, machine: Machine, **spec: Any) -> str:
    name = await make_pod(nodes, machine, **spec)
    await until_phase(nodes, name, "Running")
    return name


async def make_pod(nodes: Nodes, machine: Machine, **spec: Any) -> str:
    name = f"p-{uuid.uuid4().hex[:8]}"
    wanted = {
        "containers": [{"name": "main", "image": "image"}],
        "nodeSelector": {"kubernetes.io/hostname": machine.name},
        "restartPolicy": "Never",
    }
    await nodes.client.create(PODS, {"metadata": {"name": name}, "spec": wanted | spec})
    return name


async def until_phase(nodes: Nodes, name: str, phase: str) -> Manifest:
    pod = await nodes.client.until(PODS, name, lambda p: bool(p and p["status"]["phase"] == phase))
    assert pod is not None
    return pod


async def until_node(nodes: Nodes, name: str, holds: Callable[[Manifest], bool]) -> Manifest:
    node = await nodes.client.until(NODES, name, lambda n: n is not None and holds(n))
    assert node is not None
    return node


def condition(holder: Manifest, kind: str) -> Manifest:
    found = [c for c in holder["status"]["conditions"] if c["type"] == kind]
    return found[0] if found else {"status": "", "reason": "", "message": ""}


def readiness(status: str) -> Callable[[Manifest], bool]:
    return lambda node: condition(node, "Ready")["status"] == status


async def test_a_node_that_is_refused_half_way_is_not_left_behind(nodes: Nodes) -> None:
    name = f"n-{uuid.uuid4().hex[:8]}"
    with pytest.raises(ApiError, match="must be greater than or equal to 0"):
        await nodes.add(name, capacity={"cpu": "1", "nvidia.com/gpu": "-3"})

    known = await nodes.client.list(NODES)
    assert name not in {node["metadata"]["name"] for node in known}
    await nodes.add(name, capacity={"cpu": "1", "nvidia.com/gpu": "3"})


async def test_a_node_has_what_was_asked_for(nodes: Nodes) -> None:
    marks = pool_labels(Platform.GKE, zone="us-central1-b", instance_type="a3-highgpu-8g")
    machine = await nodes.add(
        f"n-{uuid.uuid4().hex[:8]}",
        labels=marks.labels,
        taints=marks.taints,
        capacity={"nvidia.com/gpu": "8"},
        provider_id="gce://project/us-central1-b/n",
    )
    node = await machine.read()
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert node["spec"]["providerID"] == "gce://project/us-central1-b/n"
    assert node["spec"]["taints"] == [
        {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"}
    ]
    assert node["metadata"]["labels"]["topology.kubernetes.io/region"] == "us-central1"


async def test_a_silent_node_becomes_unknown_while_its_containers_run_on(watchful: Cluster) -> None:
    timing = Timing(lease_renewal=1)
    runtime = Scripted(Script(run_seconds=1, exit=Exit(7)))
    async with Nodes(watchful.admin, runtime=runtime, timing=timing) as nodes:
        machine = await nodes.add("silent")
        witness = await nodes.add("witness")
        name = await start_pod(nodes, machine)
        machine.go_silent()
        path = at("leases", LEASE_NAMESPACE, "silent", group=LEASES)
        renewed = (await nodes.client.get(path))["spec"]["renewTime"]
        await until_node(nodes, "silent", readiness("Unknown"))
        assert (await nodes.client.get(path))["spec"]["renewTime"] == renewed
        pod = await nodes.client.get(at("pods", "default", name))
        assert pod["status"]["phase"] == "Running"  # it has ended long ago, unseen
        assert condition(await witness.read(), "Ready")["status"] == "True"

        await machine.come_back()
        await until_node(nodes, "silent", readiness("True"))
        failed = await until_phase(nodes, name, "Failed")
        end = failed["status"]["containerStatuses"][0]["state"]["terminated"]
        assert end["exitCode"] == 7
        assert datetime.fromisoformat((await nodes.client.get(path))["spec"]["renewTime"]) > (
            datetime.fromisoformat(renewed)
        )


async def test_a_deletion_during_silence_is_acted_on_afterwards(
    nodes: Nodes, machine: Machine
) -> None:
    name = await start_pod(nodes, machine)
    machine.go_silent()
    await nodes.client.delete(at("pods", "default", name))
    pod = await nodes.client.get(at("pods", "default", name))
    assert "deletionTimestamp" in pod["metadata"]
    await machine.come_back()
    await nodes.client.until(PODS, name, lambda p: p is None)


async def test_a_machine_that_vanishes_says_nothing_and_its_pods_have_failed_when_it_is_back(
    nodes: Nodes, machine: Machine
) -> None:
    name = await start_pod(nodes, machine)
    restarted = await start_pod(nodes, machine, restartPolicy="Always")
    await machine.vanish()
    pod = await nodes.client.get(at("pods", "default", name))
    assert pod["status"]["phase"] == "Running"
    await machine.come_back()
    failed = await until_phase(nodes, name, "Failed")
    end = failed["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (end["exitCode"], end["reason"]) == (137, "ContainerStatusUnknown")
    await nodes.client.until(
        PODS,
        restarted,
        lambda p: bool(p and p["status"]["containerStatuses"][0]["restartCount"] == 1),
    )


async def test_a_machine_can_vanish_with_its_node_object(nodes: Nodes) -> None:
    machine = await nodes.add(f"n-{uuid.uuid4().hex[:8]}", finalizers=["karpenter.sh/termination"])
    await machine.vanish(delete_node=True)
    await nodes.client.until(NODES, machine.name, lambda n: n is None)


async def test_a_graceful_shutdown_fails_its_pods_in_the_words_of_the_kubelet(
    nodes: Nodes, machine: Machine
) -> None:
    name = await start_pod(nodes, machine)
    await machine.shut_down(grace_seconds=5)
    ready = condition(await machine.read(), "Ready")
    assert (ready["status"], ready["reason"], ready["message"]) == (
        "False",
        "KubeletNotReady",
        "node is shutting down",
    )
    pod = await nodes.client.get(at("pods", "default", name))
    words = "Pod was terminated in response to imminent node shutdown."
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "Terminated")
    assert pod["status"]["message"] == words
    target = condition(pod, "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "TerminationByKubelet")
    end = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert end["message"] == '{"reason": "preempted"}'


async def test_a_shutdown_cuts_a_long_grace_short(nodes: Nodes) -> None:
    machine = await nodes.add(f"n-{uuid.uuid4().hex[:8]}", runtime=Scripted(Script(stop_exit=None)))
    name = await start_pod(nodes, machine, terminationGracePeriodSeconds=600)
    await machine.shut_down(grace_seconds=0.2)
    failed = await until_phase(nodes, name, "Failed")
    assert failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


async def test_a_pod_evicted_for_the_nodes_memory_says_so(nodes: Nodes, machine: Machine) -> None:
    name = await start_pod(nodes, machine)
    await machine.evict_for_pressure("default", name)
    pod = await nodes.client.get(at("pods", "default", name))
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "Evicted")
    target = condition(pod, "DisruptionTarget")
    assert target["reason"] == "TerminationByKubelet"
    assert target["message"].startswith("The node was low on resource: memory.")


async def test_a_node_rejects_pods_that_come_until_it_takes_them_again(
    nodes: Nodes, machine: Machine
) -> None:
    first = await start_pod(nodes, machine)
    machine.reject_pods("OutOfcpu", "Node didn't have enough resource: cpu")
    rejected = await make_pod(nodes, machine)
    status = (await until_phase(nodes, rejected, "Failed"))["status"]
    words = "Pod was rejected: Node didn't have enough resource: cpu"
    assert (status["reason"], status["message"]) == ("OutOfcpu", words)
    assert "containerStatuses" not in status
    machine.take_pods()
    await start_pod(nodes, machine)
    await until_phase(nodes, first, "Running")


def going_away(node: Manifest) -> tuple[set[str], set[str], bool]:
    taints = {f"{t['key']}:{t['effect']}" for t in node["spec"].get("taints", ())}
    marked = {*node["metadata"].get("labels", ()), *node["metadata"].get("annotations", ())}
    words = ("termination", "action", "event-id")
    return (
        taints,
        {m for m in marked if any(w in m for w in words)},
        node["spec"].get("unschedulable", False),
    )


@pytest.mark.parametrize("dialect", [d for d in Dialect if d is not Dialect.KARPENTER_DELETION])
async def test_every_notice_shows_on_the_node_and_can_be_taken_back(
    nodes: Nodes, machine: Machine, dialect: Dialect
) -> None:
    before = going_away(await machine.read())
    await machine.notice(dialect, seconds=120)
    node = await machine.read()
    if dialect is Dialect.KARPENTER_REBALANCE:
        assert going_away(node) == before  # a hint: there is an event, and nothing else
    else:
        assert going_away(node) != before
    if dialect in {Dialect.KARPENTER_REBALANCE, Dialect.KARPENTER_SPOT}:
        selector = f"involvedObject.uid={node['metadata']['uid']},reason!=NodeReady"
        events = await nodes.client.list(at("events", "default"), fieldSelector=selector)
        reasons = {e["reason"] for e in events}
        assert reasons & {"SpotInterrupted", "SpotRebalanceRecommendation"}
    await machine.take_back_notice(dialect)
    # The controller's own taint follows the cordon a moment later.
    await until_node(nodes, machine.name, lambda n: going_away(n) == before)


async def test_a_node_deleted_by_karpenter_is_held_by_its_finalizer(
    nodes: Nodes, machine: Machine
) -> None:
    await machine.notice(Dialect.KARPENTER_DELETION, seconds=120)
    node = await machine.read()
    assert node["metadata"]["finalizers"] == ["karpenter.sh/termination"]
    assert "deletionTimestamp" in node["metadata"]
    with pytest.raises(ValueError, match="cannot be taken back"):
        await machine.take_back_notice(Dialect.KARPENTER_DELETION)


async def test_a_notice_takes_nothing_from_the_nodes_other_taints(nodes: Nodes) -> None:
    kept = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    machine = await nodes.add(f"n-{uuid.uuid4().hex[:8]}", taints=[kept])
    await machine.notice(Dialect.AUTOSCALER, seconds=60)
    assert kept in (await machine.read())["spec"]["taints"]
    await machine.take_back_notice(Dialect.AUTOSCALER)
    assert (await machine.read())["spec"]["taints"] == [kept]


async def test_leaving_the_block_leaves_nothing(cluster: Cluster) -> None:
    async with Nodes(cluster.admin) as nodes:
        machine = await nodes.add("fleeting")
        name = await start_pod(nodes, machine, terminationGracePeriodSeconds=600)
    async with Nodes(cluster.admin) as nodes:
        for path in (
            at("nodes", None, "fleeting"),
            at("pods", "default", name),
            at("leases", LEASE_NAMESPACE, "fleeting", group=LEASES),
        ):
            with pytest.raises(ApiError) as missing:
                await nodes.client.get(path)
            assert missing.value.status == 404
