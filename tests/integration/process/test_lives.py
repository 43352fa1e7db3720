"""The operator as a process, with no rights but those that its manifests grant."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from devcluster.client import Manifest
from devcluster.cluster import Cluster
from tests.integration.process.helpers import (
    IN_ORDER_SECONDS,
    LEASE,
    Launcher,
    Replica,
    grant_rights,
    launching,
    take_rights,
    token,
    write_kubeconfig,
)
from tests.support.cluster.operator_world import World
from tests.support.cluster.tcp_relay import Relay, relayed

ROOM = {"cpu": "64", "memory": "64Gi"}


async def test_a_job_succeeds_with_the_rights_over_all_namespaces(
    world: World, operator: Launcher
) -> None:
    await world.nodes.add("a", capacity=ROOM)
    replica = await operator.start()
    await replica.until_leading()
    print(f"start-up {time.monotonic() - replica.started_at:.2f} s, {replica.resident_mb:.0f} MB")
    await world.create_job(workers={"min": 3, "max": 4, "replicas": 3})
    await world.until_phase("Running")
    await world.until(lambda: _all_arrived(world, 3))
    metrics = await replica.metrics()
    labels = f'name="job",namespace="{world.namespace}"'
    assert metrics["spotrun_leader"] == 1
    assert metrics[f'spotrun_trainingjob_info{{{labels},phase="Running"}}'] == 1
    assert metrics[f"spotrun_trainingjob_world_number{{{labels}}}"] == 1
    world.play().may_finish.set()
    await world.until_phase("Succeeded")
    await world.until_job(lambda status: status.get("settled") == "0-2")
    pods = await world.until(lambda: _all_released(world))
    assert [pod["status"]["phase"] for pod in pods] == ["Succeeded"] * 3
    await replica.stop()
    assert _refusals(world, replica) == []
    (running,) = replica.lines(message="Running: 3 workers train")
    assert (running["job"], running["worldNumber"]) == (f"{world.namespace}/job", 1)


async def test_a_job_succeeds_with_the_rights_over_its_namespace(
    world: World, cluster: Cluster, tmp_path: Path
) -> None:
    take_rights(cluster)
    grant_rights(cluster, "rbac-namespaced.yaml", namespace=world.namespace)
    kubeconfig = write_kubeconfig(cluster, token(cluster), tmp_path / "kubeconfig")
    async with launching(world, kubeconfig, tmp_path) as operator:
        await world.nodes.add("a", capacity=ROOM)
        replica = await operator.start(watch=world.namespace)
        await world.create_job(workers={"min": 2, "max": 2, "replicas": 2})
        await world.until_phase("Running")
        await world.until(lambda: _all_arrived(world, 2))
        world.play().may_finish.set()
        await world.until_phase("Succeeded")
        await world.until(lambda: _all_released(world))
        await world.kube.delete(world.jobs("job"))
        await world.until_no_pods()
        await replica.stop()
    assert _refusals(world, replica) == []


async def test_a_killed_operator_goes_on_where_it_was(world: World, operator: Launcher) -> None:
    await world.nodes.add("a", capacity=ROOM)
    first = await operator.start()
    await world.create_job(workers={"min": 2, "max": 3, "replicas": 3})
    await world.until_phase("Running")
    await world.until(lambda: _all_arrived(world, 3))
    before = (await world.job())["status"]

    first.process.kill()
    await first.ended()
    second = await operator.start(where=first.at)
    await second.until_leading()
    await asyncio.sleep(1)  # long enough to do something foolish
    after = (await world.job())["status"]
    assert after["world"] == before["world"]
    assert [pod["metadata"]["uid"] for pod in await world.pods()] == [
        agent.context.pod["metadata"]["uid"] for _, agent in sorted(world.play().agents.items())
    ]

    lost = (await world.pods())[1]["metadata"]["name"]
    await world.kube.delete(f"/api/v1/namespaces/{world.namespace}/pods/{lost}", grace_seconds=0)
    grown = await world.until_job(lambda s: s["world"]["members"] == "0,2-3")
    assert grown["status"]["world"]["number"] > before["world"]["number"]
    await world.until_job(lambda s: s.get("settled") == "1")  # once its kubelet says that it ended
    world.play().may_finish.set()
    done = await world.until_job(lambda s: s["phase"] == "Succeeded" and s["settled"] == "0-3")
    assert done["status"]["nextWorkerId"] == 4
    assert await second.stop() < IN_ORDER_SECONDS
    assert _refusals(world, second) == []


async def test_the_standby_takes_over_from_a_killed_leader(
    world: World, operator: Launcher
) -> None:
    await world.nodes.add("a", capacity=ROOM)
    async with _pair(world, operator) as (service, first, second):
        await world.create_job(workers={"min": 2, "max": 3, "replicas": 3})
        await world.until_phase("Running")
        await world.until(lambda: _all_arrived(world, 3))
        leading, standing_by = await first.metrics(), await second.metrics()
        assert (leading["spotrun_leader"], standing_by["spotrun_leader"]) == (1, 0)
        assert not [name for name in standing_by if name.startswith("spotrun_trainingjob_info")]
        before = (await world.job())["status"]["world"]

        first.process.kill()
        await first.ended()
        service.target = second.at.agents
        await second.until_leading()
        assert (await second.metrics())["spotrun_leader"] == 1
        await world.kube.delete(_pod(world, (await world.pods())[0]), grace_seconds=0)
        job = await world.until_job(lambda s: s["world"]["members"] == "1-3")
        assert job["status"]["world"]["number"] > before["number"]
        world.play().may_finish.set()
        await world.until_phase("Succeeded")
        assert _refusals(world, second) == []


async def test_sigterm_hands_over_at_once(world: World, operator: Launcher) -> None:
    await world.nodes.add("a", capacity=ROOM)
    async with _pair(world, operator) as (service, first, second):
        await world.create_job(workers={"min": 2, "max": 2, "replicas": 2})
        await world.until_phase("Running")
        await world.until(lambda: _all_arrived(world, 2))
        await world.until(lambda: _polls(first, 2))

        service.target = second.at.agents
        stopped_seconds = await first.stop()
        assert stopped_seconds < IN_ORDER_SECONDS
        assert first.lines(message="SIGTERM: stopping (send it again to end at once)")
        await second.until_leading()
        await world.until(lambda: _polls(second, 2))  # agents were hung up on, and came over
        holder = (await world.kube.get(LEASE))["spec"]["holderIdentity"]
        assert holder.startswith(f"{second.at.agents}/")
        await second.stop()
        assert (await world.kube.get(LEASE))["spec"]["holderIdentity"] == ""


async def test_each_line_about_a_job_says_so_and_none_holds_a_token(
    world: World, operator: Launcher
) -> None:
    await world.nodes.add("a", capacity=ROOM)
    replica = await operator.start("-v")
    await world.create_job(workers={"min": 2, "max": 2, "replicas": 2})
    await world.until_phase("Running")
    await world.until(lambda: _all_arrived(world, 2))
    await world.until(lambda: _has_said(world, replica, "world 1: workers 0-1"))  # once it is done
    await replica.stop()
    messages = [line["message"] for line in _lines_about(world, replica)]
    assert "create workers 0-1" in messages
    assert "world 1: workers 0-1" in messages
    assert all(set(line) >= {"time", "level", "logger", "message"} for line in replica.lines())
    secret = json.loads(
        world.cluster.kubectl(
            "get", "secret", "spotrun-agents", "-n", "spotrun-system", "-o", "json"
        ).stdout
    )
    ours = operator.kubeconfig.read_text().split("token: ")[1].split()[0]
    hidden = [ours, *secret["data"].values()]
    assert [text for text in hidden if text[:40] in replica.text] == []
    assert "eyJ" not in replica.text


@asynccontextmanager
async def _pair(world: World, operator: Launcher) -> AsyncIterator[tuple[Relay, Replica, Replica]]:
    """A Service that leads to the leader, the leader and a standby."""
    async with relayed("", listen=(world.cluster.block.pod_address(), 0)) as service:
        first = await operator.start("--advertise", service.address)
        await first.until_leading()
        second = await operator.start("--advertise", service.address)
        await world.until(lambda: _is_ready(second))
        service.target = first.at.agents
        yield service, first, second


async def _all_arrived(world: World, count: int) -> bool:
    world_number = (await world.job())["status"]["world"]["number"]
    arrived = [agent.report.arrived for agent in world.play().agents.values()]
    return arrived.count(world_number) == count


async def _all_released(world: World) -> list[Manifest] | None:
    pods = await world.pods()
    return None if any(pod["metadata"].get("finalizers") for pod in pods) else pods


async def _is_ready(replica: Replica) -> bool:
    try:
        status, _ = await replica.get(replica.at.metrics_port, "/readyz")
    except OSError:
        return False
    return status == 200


async def _polls(replica: Replica, count: int) -> bool:
    return bool((await replica.metrics())["spotrun_agent_polls"] == count)


def _pod(world: World, pod: Any) -> str:
    return f"/api/v1/namespaces/{world.namespace}/pods/{pod['metadata']['name']}"


def _refusals(world: World, replica: Replica) -> list[str]:
    """What it was not allowed to do, or did not manage, apart from jobs that other tests left."""
    return [
        line["message"]
        for line in replica.lines()
        if (line["level"] in {"error", "critical"} or "forbidden" in line["message"])
        and str(line.get("job", world.namespace)).startswith(world.namespace)
    ]


async def _has_said(world: World, replica: Replica, message: str) -> bool:
    return message in [line["message"] for line in _lines_about(world, replica)]


def _lines_about(world: World, replica: Replica) -> list[dict[str, Any]]:
    return replica.lines(job=f"{world.namespace}/job")
