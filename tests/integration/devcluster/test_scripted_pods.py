"""Scripted pods against a real API server, scheduler and controller manager."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from devcluster.client import Client, Manifest, at
from devcluster.cluster import Cluster
from devcluster.kubelet.api import KubeletApi
from devcluster.kubelet.lifecycle import Timing
from devcluster.kubelet.runtime import Exit, StartError
from devcluster.nodes import Nodes
from devcluster.scripted import AT_ONCE, OOM_KILLED, Context, Script, Scripted

PODS = at("pods", "default")
FAST = Timing(restart_backoff=0.1, start_retry=0.1)


class Place:
    """One node whose pods behave as `scripts` says, by pod name."""

    def __init__(self, nodes: Nodes, node: str, scripts: dict[str, Script]) -> None:
        self.nodes = nodes
        self.node = node
        self._scripts = scripts

    @property
    def client(self) -> Client:
        return self.nodes.client

    async def run(self, script: Script, *containers: str, **spec: Any) -> str:
        name = f"p-{uuid.uuid4().hex[:8]}"
        self._scripts[name] = script
        wanted: Manifest = {
            "containers": [{"name": c, "image": "image"} for c in containers or ("main",)],
            "nodeSelector": {"kubernetes.io/hostname": self.node},
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
        }
        await self.client.create(PODS, {"metadata": {"name": name}, "spec": wanted | spec})
        return name

    async def until(self, name: str, holds: Callable[[Manifest], bool]) -> Manifest:
        pod = await self.client.until(PODS, name, lambda p: p is not None and holds(p))
        assert pod is not None
        return pod

    async def phase(self, name: str, phase: str) -> Manifest:
        return await self.until(name, lambda p: p["status"]["phase"] == phase)

    async def gone(self, name: str) -> None:
        await self.client.until(PODS, name, lambda p: p is None)


@pytest.fixture
async def place(cluster: Cluster) -> AsyncIterator[Place]:
    scripts: dict[str, Script] = {}
    name = f"n-{uuid.uuid4().hex[:8]}"
    runtime = Scripted(lambda pod: scripts.get(pod["metadata"]["name"], AT_ONCE))
    async with Nodes(
        cluster.admin,
        runtime=runtime,
        address=cluster.block.host,
        tls=cluster.kubelet_tls(),
        timing=FAST,
    ) as nodes:
        await nodes.add(name, capacity={"nvidia.com/gpu": "8"})
        yield Place(nodes, name, scripts)


def main_status(pod: Manifest) -> Manifest:
    status: Manifest = pod["status"]["containerStatuses"][0]
    return status


def conditions(pod: Manifest) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c.get("reason", "")) for c in pod["status"]["conditions"]}


async def test_a_pod_runs_and_succeeds_in_two_writes(place: Place) -> None:
    gpu = {"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    name = await place.run(Script(run_seconds=0.2), containers=[gpu])
    running = await place.phase(name, "Running")
    assert conditions(running) == {
        "PodReadyToStartContainers": ("True", ""),
        "Initialized": ("True", ""),
        "Ready": ("True", ""),
        "ContainersReady": ("True", ""),
        "PodScheduled": ("True", ""),
    }
    assert running["status"]["podIP"].startswith("10.128.")
    assert running["status"]["qosClass"] == "BestEffort"
    assert main_status(running)["started"] is True
    done = await place.phase(name, "Succeeded")
    assert main_status(done)["state"]["terminated"]["reason"] == "Completed"
    assert conditions(done)["Ready"] == ("False", "PodCompleted")
    assert place.nodes.num_pod_writes == 2


async def test_a_failure_carries_its_exit_code_and_at_most_4096_bytes_of_message(
    place: Place,
) -> None:
    name = await place.run(Script(run_seconds=0, exit=Exit(3, message="x" * 5000)))
    end = main_status(await place.phase(name, "Failed"))["state"]["terminated"]
    assert (end["exitCode"], end["reason"], end["message"]) == (3, "Error", "x" * 4096)


async def test_a_container_out_of_memory_says_so(place: Place) -> None:
    name = await place.run(Script(run_seconds=0, exit=OOM_KILLED))
    end = main_status(await place.phase(name, "Failed"))["state"]["terminated"]
    assert (end["exitCode"], end["reason"]) == (137, "OOMKilled")


async def test_a_deleted_pod_gets_sigterm_and_goes(place: Place) -> None:
    terminated = asyncio.Event()

    async def play(context: Context) -> Exit:
        await context.terminated.wait()
        terminated.set()
        return Exit(0)

    name = await place.run(Script(play=play), terminationGracePeriodSeconds=60)
    await place.phase(name, "Running")
    await place.client.delete(at("pods", "default", name))
    await place.gone(name)
    assert terminated.is_set()


async def test_a_pod_that_ignores_sigterm_is_killed_after_its_grace(place: Place) -> None:
    name = await place.run(Script(stop_exit=None), terminationGracePeriodSeconds=1)
    await place.client.patch(
        at("pods", "default", name), {"metadata": {"finalizers": ["test.spotrun.dev/look"]}}
    )
    await place.phase(name, "Running")
    await place.client.delete(at("pods", "default", name))
    held = await place.phase(name, "Failed")
    assert main_status(held)["state"]["terminated"]["exitCode"] == 137
    await place.client.patch(at("pods", "default", name), {"metadata": {"finalizers": None}})
    await place.gone(name)


async def test_an_unkillable_pod_stays_until_it_is_deleted_by_force(place: Place) -> None:
    name = await place.run(Script(stop_exit=None, ends_on_kill=False))
    await place.phase(name, "Running")
    await place.client.delete(at("pods", "default", name), grace_seconds=1)
    await place.until(name, lambda p: "deletionTimestamp" in p["metadata"])
    with pytest.raises(TimeoutError):  # longer than the grace: nothing may happen here
        await place.client.until(PODS, name, lambda p: p is None, timeout_seconds=1.5)
    await place.client.delete(at("pods", "default", name), grace_seconds=0)
    await place.gone(name)


async def test_a_pod_deleted_before_its_start_goes_at_once(place: Place) -> None:
    name = await place.run(Script(start_seconds=600), terminationGracePeriodSeconds=600)
    await place.until(name, lambda p: "nodeName" in p["spec"])
    await place.client.delete(at("pods", "default", name))
    await place.gone(name)


async def test_an_image_that_cannot_be_pulled_is_a_waiting_reason_until_it_can(
    place: Place,
) -> None:
    error = StartError("ImagePullBackOff", 'Back-off pulling image "image"')
    name = await place.run(Script(run_seconds=0, start_error=error, start_failures=3))
    held = await place.until(name, lambda p: "containerStatuses" in p["status"])
    assert held["status"]["phase"] == "Pending"
    assert main_status(held)["state"]["waiting"] == {
        "reason": "ImagePullBackOff",
        "message": 'Back-off pulling image "image"',
    }
    await place.phase(name, "Succeeded")


async def test_a_container_is_restarted_until_it_succeeds(place: Place) -> None:
    async def play(context: Context) -> Exit:
        return Exit(0 if context.restarts == 3 else 1)

    name = await place.run(Script(play=play), restartPolicy="OnFailure")
    done = await place.phase(name, "Succeeded")
    assert main_status(done)["restartCount"] == 3
    assert main_status(done)["lastState"]["terminated"]["exitCode"] == 1


async def test_init_containers_run_first_and_a_sidecar_is_ended_last(place: Place) -> None:
    order: list[str] = []

    async def play(context: Context) -> Exit:
        name = context.container["name"]
        order.append(name)
        if name == "sidecar":
            await context.terminated.wait()
            order.append("sidecar ends")
        return Exit(0)

    name = await place.run(
        Script(containers=dict.fromkeys(("first", "sidecar", "main"), Script(play=play))),
        initContainers=[
            {"name": "first", "image": "i"},
            {"name": "sidecar", "image": "i", "restartPolicy": "Always"},
        ],
    )
    await place.phase(name, "Succeeded")
    assert order == ["first", "sidecar", "main", "sidecar ends"]


async def test_a_pod_past_its_active_deadline_fails(place: Place) -> None:
    name = await place.run(Script(), activeDeadlineSeconds=1)
    failed = await place.phase(name, "Failed")
    assert failed["status"]["reason"] == "DeadlineExceeded"


async def test_a_job_of_scripted_pods_completes(place: Place) -> None:
    jobs = at("jobs", "default", group="batch/v1")
    name = f"j-{uuid.uuid4().hex[:8]}"
    template = {
        "containers": [{"name": "main", "image": "i"}],
        "nodeSelector": {"kubernetes.io/hostname": place.node},
        "restartPolicy": "Never",
    }
    spec = {"parallelism": 4, "completions": 4, "template": {"spec": template}}
    await place.client.create(jobs, {"metadata": {"name": name}, "spec": spec})
    await place.client.until(jobs, name, lambda j: bool(j and j["status"].get("succeeded") == 4))
    await place.client.delete(f"{jobs}/{name}", propagation="Foreground")
    await place.client.until(jobs, name, lambda j: j is None)


async def test_logs_of_a_running_and_of_an_ended_container(place: Place, cluster: Cluster) -> None:
    go = asyncio.Event()

    async def play(context: Context) -> Exit:
        context.log(f"rank {context.env['RANK']} of {context.env['NAME']}")
        await go.wait()
        context.log("bye")
        return Exit(0)

    env = [
        {"name": "RANK", "value": "3"},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    name = await place.run(
        Script(play=play), containers=[{"name": "main", "image": "i", "env": env}]
    )
    await place.phase(name, "Running")
    following = await asyncio.create_subprocess_exec(
        cluster.binaries["kubectl"],
        "logs",
        "--follow",
        name,
        env=cluster.environment,
        stdout=asyncio.subprocess.PIPE,
    )
    assert following.stdout is not None
    assert await following.stdout.readline() == f"rank 3 of {name}\n".encode()
    go.set()
    assert await following.stdout.read() == b"bye\n"
    assert await following.wait() == 0
    await place.phase(name, "Succeeded")

    def logs(*options: str) -> str:
        ran = cluster.kubectl("logs", name, *options, check=False)
        return ran.stdout + ran.stderr

    assert await asyncio.to_thread(logs, "--tail=1") == "bye\n"
    assert "leave out --previous" in await asyncio.to_thread(logs, "--previous")


async def test_logs_of_a_container_that_waits_are_refused_with_its_reason(
    place: Place, cluster: Cluster
) -> None:
    error = StartError("CreateContainerConfigError", 'secret "s" not found')
    name = await place.run(Script(start_error=error))
    await place.until(name, lambda p: "containerStatuses" in p["status"])
    ran = await asyncio.to_thread(cluster.kubectl, "logs", name, check=False)
    assert "is waiting to start" in ran.stderr
    assert "CreateContainerConfigError" in ran.stderr or "secret" in ran.stderr


async def test_a_status_of_a_pod_that_is_gone_is_not_written_to_its_successor(
    place: Place,
) -> None:
    name = await place.run(Script())
    await place.phase(name, "Running")
    now = await place.client.get(at("pods", "default", name))
    predecessor = now | {"metadata": now["metadata"] | {"uid": str(uuid.uuid4())}}
    reachable = asyncio.Event()
    reachable.set()
    api = KubeletApi(place.client)
    assert await api.write_status(predecessor, {"phase": "Failed"}, reachable) is None
    assert await place.client.get(at("pods", "default", name)) == now
