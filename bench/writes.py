"""The load of jobs on the API server: the operator's writes, counted by the audit log.

`lives`: jobs of 8 workers that train and succeed; `removed`: workers that a smaller size removes;
then a window in which suspended, unschedulable and finished jobs must need no write, and running
jobs whose progress changes every second need at most one write a minute. The operator's own
counters are printed beside those of the audit log. Events, dry runs (nothing is stored) and the
operator's writes for itself (its Lease, token reviews, its Secret) are counted separately.

Nodes are scripted; agents are `tests/support/cluster/scripted_agent.py`: real connections, tokens
and reports.

Run as `.venv/bin/python bench/writes.py [--quick] [--jobs 20] [--seconds 130]`.
"""

import argparse
import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench.operator_bench import JOBS, PODS, Child, Rig, job, phases, say, until
from devcluster.argument_types import how_many
from devcluster.client import Manifest, Manifests
from devcluster.cluster import Cluster
from devcluster.kubelet.runtime import Exit
from devcluster.nodes import Nodes
from devcluster.scripted import Context, Script, Scripted
from spotrun.api.names import LABEL_JOB
from tests.support.cluster.scripted_agent import Play

SIZE = 8
REMOVED = 4
PATIENCE_SECONDS = 600
POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata, verbs: [create, update, patch, delete, deletecollection]}]
"""
OF_ITS_OWN = {"leases", "tokenreviews", "secrets"}


@dataclass(frozen=True)
class Write:
    """One write of the operator, as the API server saw it."""

    kind: str  # e.g. "create pods", "patch trainingjobs/status"
    name: str

    @property
    def is_event(self) -> bool:
        return "events" in self.kind

    @property
    def is_dry(self) -> bool:
        return self.kind.startswith("dry ")


class Audit:
    """The API server's own account of the operator's writes."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "audit.log"
        self._read = 0
        policy = folder / "policy.yaml"
        policy.write_text(POLICY)
        self.flags = [f"--audit-policy-file={policy}", f"--audit-log-path={self._log}"]

    def new(self) -> list[Write]:
        """The writes since the last call that succeeded."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            lines = log.readlines()
        if lines and not lines[-1].endswith(b"\n"):
            lines.pop()
        self._read += sum(map(len, lines))
        return list(_writes(lines))


def _writes(lines: list[bytes]) -> Iterator[Write]:
    for line in lines:
        event = json.loads(line)
        about = event.get("objectRef", {})
        if event.get("userAgent") != "spotrun" or about.get("resource") in OF_ITS_OWN:
            continue
        if event["responseStatus"]["code"] >= 300:
            continue
        what = "/".join(filter(None, (about["resource"], about.get("subresource"))))
        dry = "dry " if "dryRun" in event["requestURI"] else ""
        yield Write(f"{dry}{event['verb']} {what}", about.get("name", ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 jobs, a window of 10 s")
    parser.add_argument("--jobs", type=how_many, default=20)
    parser.add_argument("--seconds", type=float, default=130, help="how long nothing happens")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.jobs, arguments.seconds = 2, 10.0
    with tempfile.TemporaryDirectory() as folder:
        audit = Audit(Path(folder))
        with Cluster(extra_flags={"kube-apiserver": audit.flags}) as cluster:
            uvloop.run(measure(cluster, audit, arguments))


async def measure(cluster: Cluster, audit: Audit, arguments: argparse.Namespace) -> None:
    async with Rig(cluster) as rig:
        agents = Agents(rig)
        async with Nodes(cluster.admin, runtime=Scripted(Script(play=agents.run))) as nodes:
            for number in range(-(-(arguments.jobs + 4) * SIZE // 100)):
                await nodes.add(f"bench-{number}", capacity={"cpu": "1000", "pods": "200"})
            async with rig.operator() as operator:
                await operator.hear("synced")
                await lives(rig, agents, operator, audit, arguments.jobs)
                await removed(rig, agents, audit)
                await quiet_window(rig, agents, operator, audit, arguments.seconds)
                await operator.quit()


class Agents:
    """The agents of all jobs."""

    def __init__(self, rig: Rig) -> None:
        self._kube = rig.kube
        self._plays: dict[str, Play] = {}

    async def run(self, context: Context) -> Exit:
        """Be a container."""
        play = self.of(context.pod["metadata"]["labels"][LABEL_JOB])
        ended: Exit = await play.container(self._kube)(context)
        return ended

    def of(self, name: str) -> Play:
        return self._plays.setdefault(name, Play())

    def have_arrived(self, name: str, number: int) -> bool:
        """Whether this number of workers trains in the same world."""
        worlds = Counter(agent.report.arrived for agent in self.of(name).agents.values())
        worlds.pop(0, None)
        return number in worlds.values()


async def lives(rig: Rig, agents: Agents, operator: Child, audit: Audit, jobs: int) -> None:
    """Measure whole lives of jobs that succeed."""
    names = [f"life-{number}" for number in range(jobs)]
    await rig.create_jobs(names, SIZE)
    await until_true(lambda: all(agents.have_arrived(name, SIZE) for name in names), "all train")
    for name in names:
        agents.of(name).may_finish.set()

    async def over() -> bool:
        pods = await rig.kube.list(PODS)
        is_held = any(pod["metadata"].get("finalizers") for pod in pods)
        return phases((await rig.kube.get(JOBS))["items"]) == {"Succeeded": jobs} and not is_held

    await until(over, PATIENCE_SECONDS, "all have succeeded and their pods are released")
    await calm(operator)
    writes, workers = audit.new(), jobs * SIZE
    lasting = [write for write in writes if not (write.is_event or write.is_dry)]
    worlds = sum(one["status"]["world"]["number"] for one in await all_jobs(rig))
    allowed = (2 * workers + 7 * jobs + worlds) / workers
    facts = {"jobs": jobs, "workers": workers, "allowed": round(allowed, 3), "worlds": worlds}
    say("writes_per_worker", len(lasting) / workers, "writes", **facts, kinds=kinds(lasting))
    apart = [write for write in writes if write.is_event or write.is_dry]
    say("writes_apart_per_job", len(apart) / jobs, "writes", kinds=kinds(apart))
    counters = (await operator.ask("stats"))["writes"]
    own = sum(number for kind, number in counters.items() if kind not in {"event", "dry_run"})
    say("writes_per_worker_by_own_counters", own / workers, "writes", kinds=counters)


async def removed(rig: Rig, agents: Agents, audit: Audit) -> None:
    """Measure the decrease of a running job."""
    name = "shrinks"
    await rig.create_jobs([name], SIZE)
    await until_true(lambda: agents.have_arrived(name, SIZE), "all train")
    await asyncio.sleep(5)  # until the collected counts are written
    audit.new()
    workers = {"replicas": SIZE - REMOVED}
    await rig.kube.patch(f"{JOBS}/{name}", {"spec": {"workers": workers}})

    async def has_shrunk() -> bool:
        pods = await rig.kube.list(PODS, labelSelector=f"{LABEL_JOB}={name}")
        over = [p for p in pods if p["status"]["phase"] in {"Failed", "Succeeded"}]
        held = [pod for pod in over if pod["metadata"].get("finalizers")]
        return len(pods) - len(over) == SIZE - REMOVED and not held

    await until(has_shrunk, PATIENCE_SECONDS, "the job is smaller")
    await asyncio.sleep(5)
    writes = [write for write in audit.new() if not (write.is_event or write.is_dry)]
    pods = [write for write in writes if write.kind.endswith(" pods")]
    facts = {"removed": REMOVED, "allowed": 3, "kinds": kinds(writes)}
    say("writes_per_removed_worker", 1 + len(pods) / REMOVED, "writes", **facts)
    say("status_writes_of_a_smaller_world", len(writes) - len(pods), "writes")


async def quiet_window(
    rig: Rig, agents: Agents, operator: Child, audit: Audit, seconds: float
) -> None:
    """Measure a time in which only the progress changes."""
    running = ["shrinks", "runs"]
    await rig.create_jobs(["runs"], SIZE)
    await rig.create_jobs(["suspended-0", "suspended-1"], SIZE, suspend=True)
    for number in range(2):
        await rig.kube.create(JOBS, unschedulable(f"pending-{number}"))
    await until_true(lambda: agents.have_arrived("runs", SIZE), "all train")
    await calm(operator)
    audit.new()
    for _ in range(round(seconds)):
        await operator.ask("progress")
        await asyncio.sleep(1)
    writes = audit.new()
    refresh = [write for write in writes if write.name in running and "status" in write.kind]
    others = [write for write in writes if write not in refresh]
    facts = {"seconds": seconds, "phases": phases(await all_jobs(rig))}
    say("idle_writes", len(others), "writes", **facts, kinds=kinds(others))
    rate = len(refresh) / len(running) / seconds * 60
    say("refresh_writes_per_minute", rate, "writes", jobs=len(running), seconds=seconds)


def unschedulable(name: str) -> Manifest:
    body = job(name, SIZE)
    template = body["spec"]["workers"]["template"]["spec"]
    template["containers"][0]["resources"] = {"requests": {"cpu": "100000"}}
    return body


async def calm(operator: Child) -> None:
    """Wait until the operator has had nothing to do for the length of its longest pauses."""
    last = -1
    while (now := sum((await operator.ask("stats"))["writes"].values())) != last:
        last = now
        await asyncio.sleep(5)


async def all_jobs(rig: Rig) -> Manifests:
    return await rig.kube.list(JOBS)


async def until_true(holds: Callable[[], bool], what: str) -> None:
    async def ask() -> bool:
        return holds()

    await until(ask, PATIENCE_SECONDS, what)


def kinds(writes: list[Write]) -> dict[str, int]:
    return dict(Counter(write.kind for write in writes))


if __name__ == "__main__":
    main()
