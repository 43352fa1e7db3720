"""Nodes that go away, or say so, and how soon the jobs on them are written."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from bench.operator_bench import JOBS, PODS, Child, Rig, percentile, say, until
from bench.reaction import READ, Kill, Watches, all_pods
from devcluster.client import Manifest, at
from spotrun.api.field_types.text_values import WorkerIds
from spotrun.api.names import LABEL_JOB
from spotrun.kube.resource import Resource
from spotrun.kube.rest.client import Selection
from tests.support.cluster.scripted_agent import worker_id_of

REACTION_SECONDS = 120
QUIET_SECONDS = 600


@dataclass
class NodeWatches(Watches):
    """Watches of nodes and jobs; each kill is one job with a worker on a node."""

    on_node: dict[str, list[Kill]] = field(default_factory=dict)

    async def follow_nodes(self, rig: Rig, version: int) -> None:
        """Note when a node is seen to be gone, or under notice."""
        async for line in rig.lines(Selection(Resource("", "v1", "nodes")), version):
            seen_at = time.monotonic()
            event = READ.decode(line)
            meta = event.object.metadata
            if event.type == "DELETED" or event.object.spec.taints:
                for kill in self.on_node.get(meta.name, ()):
                    if not kill.seen_at:
                        kill.version, kill.seen_at = int(meta.resource_version), seen_at


async def disturb(
    rig: Rig, nodes: Child, order: str, number: int, *, settle_seconds: float
) -> list[Kill]:
    """Do this to some nodes, one after the other, each time with all jobs at rest."""
    watches = NodeWatches()
    follow = [
        asyncio.create_task(watches.follow_nodes(rig, await rig.version(at("nodes")))),
        asyncio.create_task(watches.follow_jobs(rig, await rig.version(JOBS))),
    ]
    found: list[Kill] = []
    for node in (await _fullest(rig))[:number]:
        workers, now = await _workers_on(rig, node), time.monotonic()
        kills = [Kill(job, now) for job in workers]
        watches.by_job = {kill.job: kill for kill in kills}
        watches.on_node[node] = kills
        await nodes.ask(order, node=node)

        async def all_answered(kills: list[Kill] = kills) -> bool:
            for task in follow:
                if task.done():
                    await task  # it failed
            return all(kill.written_at for kill in kills)

        await until(all_answered, REACTION_SECONDS, "every job on the node was written")
        found += kills
        await quiet(rig, settle_seconds, workers)
    for task in follow:
        task.cancel()
    await asyncio.gather(*follow, return_exceptions=True)
    return found


async def quiet(
    rig: Rig, settle_seconds: float, without: Mapping[str, Collection[int]] = MappingProxyType({})
) -> None:
    """Wait until all jobs train with all their workers, and without these."""

    async def holds() -> bool:
        jobs = (await rig.kube.get(JOBS))["items"]
        return all(_is_complete(job, without.get(job["metadata"]["name"], ())) for job in jobs)

    await until(holds, QUIET_SECONDS, "all jobs are complete again", pause_seconds=1)
    await asyncio.sleep(settle_seconds)


def _is_complete(job: Manifest, without: Collection[int]) -> bool:
    world = job.get("status", {}).get("world") or {}
    members = frozenset(WorkerIds(world.get("members", "")).numbers)
    is_whole = len(members) == job["spec"]["workers"]["replicas"] and members.isdisjoint(without)
    return bool(world.get("active")) and is_whole and job["status"]["phase"] == "Running"


async def _fullest(rig: Rig) -> list[str]:
    """Return the nodes that stay, those with workers of most jobs first."""
    jobs: dict[str, set[str]] = defaultdict(set)
    for pod in await all_pods(rig):
        jobs[pod["spec"].get("nodeName", "")].add(pod["metadata"]["labels"][LABEL_JOB])
    nodes = await rig.kube.list(at("nodes"))
    stay = [node["metadata"]["name"] for node in nodes if not node["spec"].get("taints")]
    return sorted(stay, key=lambda name: -len(jobs[name]))


async def _workers_on(rig: Rig, node: str) -> dict[str, set[int]]:
    """Return the workers on a node, by job."""
    found: dict[str, set[int]] = defaultdict(set)
    for pod in await rig.kube.list(PODS, fieldSelector=f"spec.nodeName={node}"):
        found[pod["metadata"]["labels"][LABEL_JOB]].add(worker_id_of(pod))
    return dict(found)


def tell(name: str, what: str, kills: list[Kill], **facts: object) -> list[float]:
    """Print how soon the jobs were written; return the times in milliseconds."""
    reactions = [1e3 * max(0.0, kill.written_at - kill.seen_at) for kill in kills]
    facts |= {"nodes": len({kill.asked_at for kill in kills}), "reactions": len(kills)}
    say(f"{name}_{what}_p50_ms", percentile(reactions, 50), "ms", **facts)
    worst = round(max(reactions), 1)
    say(f"{name}_{what}_p99_ms", percentile(reactions, 99), "ms", **facts, worst=worst)
    return reactions
