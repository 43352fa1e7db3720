"""Many jobs of many teams with the real Kueue: the time from admission to pods, and quota.

Each team has a queue with room for a few of its jobs. A running job is suspended, which gives its
quota to the next one, until each has run. Pods and Workloads are watched; their versions give one
order of all events. From that the bench counts how often a job had more pods than it had reserved,
or a team more than its quota. Nodes are scripted, and agents are simulated in the operator.

All jobs are created at once, which keeps two cores busy until the last has run. With `--rate` that
many are created per second, as in a cluster whose API server is not at its limit.

Run as `.venv/bin/python bench/fleet.py [--quick] [--jobs 500] [--teams 20] [--rate PER_SECOND]
[--profile FILE]`.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec
import uvloop

from bench.operator_bench import (
    JOBS,
    NAMESPACE,
    PODS,
    Child,
    Rig,
    cpu_seconds,
    in_parallel,
    job,
    percentile,
    say,
    until,
)
from devcluster.argument_types import how_many
from devcluster.client import Manifest, at
from devcluster.cluster import Cluster
from devcluster.kueue.server import kueue
from spotrun.api.names import LABEL_JOB, LABEL_JOB_UID, LABEL_QUEUE
from spotrun.kube.resource import Resource
from spotrun.kube.rest.client import Selection

GROUP = "kueue.x-k8s.io/v1beta2"
WORKLOADS = at("workloads", NAMESPACE, group=GROUP)
SIZE, AT_ONCE = 2, 5  # workers of a job, and jobs of a team that fit into its quota
ALL_SECONDS = 1500
PROFILE_SECONDS = 20


class Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class Count(msgspec.Struct, frozen=True):
    count: int = 0


class Admission(msgspec.Struct, frozen=True, rename="camel"):
    pod_set_assignments: tuple[Count, ...] = ()


class Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    reclaimable_pods: tuple[Count, ...] = ()

    def holds(self, kind: str) -> bool:
        return any(one.type == kind and one.status == "True" for one in self.conditions)


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    resource_version: str
    labels: dict[str, str] = {}


class Seen(msgspec.Struct, frozen=True):
    metadata: Meta
    status: Status = Status()


class Event(msgspec.Struct, frozen=True):
    type: str
    object: Seen


READ = msgspec.json.Decoder(Event)


@dataclass
class Watches:
    """All observed events of pods and Workloads, with their times."""

    events: list[tuple[int, bool, Event]] = field(default_factory=list)  # version, whether a pod
    admitted_at: dict[str, float] = field(default_factory=dict)  # by job, the first time
    first_pod_at: dict[str, float] = field(default_factory=dict)

    async def follow(self, rig: Rig, selection: Selection, version: int, *, pods: bool) -> None:
        async for line in rig.lines(selection, version):
            seen_at, event = time.monotonic(), READ.decode(line)
            meta = event.object.metadata
            self.events.append((int(meta.resource_version), pods, event))
            name = meta.labels[LABEL_JOB]
            if pods:
                self.first_pod_at.setdefault(name, seen_at)
            elif event.object.status.holds("Admitted"):
                self.admitted_at.setdefault(name, seen_at)

    def violations(self) -> int:
        """Return the number of events after which a job or a team had more pods than quota."""
        pods: Counter[str] = Counter()
        alive, reserved, count = dict[str, str](), dict[str, tuple[str, int]](), 0
        for _, is_pod, event in sorted(self.events, key=lambda one: one[0]):
            meta, status = event.object.metadata, event.object.status
            name = meta.labels[LABEL_JOB]
            is_gone = event.type == "DELETED"
            if is_pod:
                pods[alive.pop(meta.name, "")] -= 1
                if not is_gone and status.phase not in {"Succeeded", "Failed"}:
                    alive[meta.name] = name
                    pods[name] += 1
            else:
                reserved[meta.name] = (name, 0 if is_gone else _held(status))
            held = sum(number for owner, number in reserved.values() if owner == name)
            team = name.rpartition("-")[0]
            in_team = sum(n for one, n in pods.items() if one.rpartition("-")[0] == team)
            count += pods[name] > held or in_team > SIZE * AT_ONCE
        return count


def _held(status: Status) -> int:
    """Return the pods for which a Workload holds quota."""
    if not status.holds("QuotaReserved") or status.holds("Finished") or status.admission is None:
        return 0
    given_back = sum(one.count for one in status.reclaimable_pods)
    return sum(one.count for one in status.admission.pod_set_assignments) - given_back


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="24 jobs of 2 teams")
    parser.add_argument("--jobs", type=how_many, default=500)
    parser.add_argument("--teams", type=how_many, default=20)
    parser.add_argument("--seconds", type=float, default=ALL_SECONDS, help="it ends after so many")
    parser.add_argument("--rate", type=how_many, help="jobs created a second; default: all at once")
    parser.add_argument(
        "--profile", metavar="FILE", help="keep profiles there: of the operator, and FILE.server"
    )
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.jobs, arguments.teams = 24, 2
    with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        uvloop.run(measure(cluster, Path(folder), arguments))


async def measure(cluster: Cluster, folder: Path, arguments: argparse.Namespace) -> None:
    jobs, teams = arguments.jobs, arguments.teams
    # Kueue ends last, since its webhooks judge what is deleted.
    with kueue(cluster, folder / "kueue") as queue_pid:
        async with (
            Rig(cluster, "--kueue") as rig,
            rig.nodes(2 * teams * AT_ONCE * SIZE) as nodes,
            rig.operator(plays=True) as operator,
        ):
            await operator.hear("synced")
            await make_queues(rig, teams)
            pids = {"operator": operator.pid, "kueue": queue_pid, "nodes": nodes.pid}
            pids |= {"bench": os.getpid()} | cluster.control.pids()
            before = {name: cpu_seconds(pid) for name, pid in pids.items()}
            profiles: list[asyncio.Task[None]] = []
            if arguments.profile:
                await operator.ask("profile")
                server = asyncio.to_thread(profile_server, cluster, arguments.profile)
                profiles.append(asyncio.create_task(server))
            begun = time.monotonic()
            watches = await run_all(rig, jobs, teams, arguments.seconds, arguments.rate)
            wall = time.monotonic() - begun
            used = {name: cpu_seconds(pid) - before[name] for name, pid in pids.items()}
            if arguments.profile:
                await operator.ask("dump", file=arguments.profile)
            await asyncio.gather(*profiles)
            tell(watches, jobs, teams)
            await tell_cpu(operator, used, wall, jobs)


def profile_server(cluster: Cluster, file: str) -> None:
    """Store a CPU profile of the API server beside the operator's, for `go tool pprof`."""
    admin = cluster.admin
    address = f"{admin.server}/debug/pprof/profile?seconds={PROFILE_SECONDS}"
    with urllib.request.urlopen(address, context=admin.ssl_context()) as answer:  # noqa: S310
        Path(f"{file}.server").write_bytes(answer.read())


async def tell_cpu(operator: Child, used: Mapping[str, float], wall: float, jobs: int) -> None:
    """Print what used the machine while the jobs ran, and how often the operator wrote."""
    shares = {name: round(seconds, 1) for name, seconds in used.items()}
    cores = round(sum(used.values()) / wall, 2)
    say("fleet_cpu_seconds", sum(used.values()), "s", wall=round(wall, 1), cores=cores, **shares)
    writes: dict[str, int] = (await operator.ask("stats"))["writes"]
    say("fleet_writes_per_job", sum(writes.values()) / jobs, "writes", **writes)


async def make_queues(rig: Rig, teams: int) -> None:
    await make(rig, "ResourceFlavor", {"metadata": {"name": "any"}})
    quota = {"name": "cpu", "nominalQuota": f"{SIZE * AT_ONCE}m"}
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": [quota]}]}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups}
    for team in range(teams):
        metadata = {"name": f"team-{team}"}
        await make(rig, "ClusterQueue", {"metadata": metadata, "spec": spec})
        queue = {"metadata": metadata, "spec": {"clusterQueue": f"team-{team}"}}
        await make(rig, "LocalQueue", queue, NAMESPACE)


async def make(rig: Rig, kind: str, body: Manifest, namespace: str | None = None) -> None:
    typed = {"apiVersion": GROUP, "kind": kind, **body}
    await rig.kube.create(at(f"{kind.lower()}s", namespace, group=GROUP), typed)


async def run_all(rig: Rig, jobs: int, teams: int, seconds: float, rate: int | None) -> Watches:
    """Create all jobs; return when each has run and has ended, or the time is up."""
    watches = Watches()
    pods = Selection(Resource("", "v1", "pods"), NAMESPACE, label_selector=LABEL_JOB_UID)
    kind = Resource("kueue.x-k8s.io", "v1beta2", "workloads")
    asked = Selection(kind, NAMESPACE, label_selector=LABEL_JOB_UID)
    follow = [
        asyncio.create_task(watches.follow(rig, pods, await rig.version(PODS), pods=True)),
        asyncio.create_task(watches.follow(rig, asked, await rig.version(WORKLOADS), pods=False)),
    ]
    bodies = [queued_job(number % teams, number) for number in range(jobs)]
    creating = asyncio.create_task(create(rig, bodies, rate))
    told = set[str]()

    async def all_have_run() -> bool:
        for task in (*follow, creating):
            if task.done():
                await task  # it may have failed
        found = (await rig.kube.get(JOBS))["items"]
        runs = [one["metadata"]["name"] for one in found if phase(one) == "Running"]
        await suspend(rig, (name for name in runs if name not in told))
        told.update(runs)
        return len(told) == jobs and not await rig.kube.list(PODS, labelSelector=str(LABEL_JOB_UID))

    try:
        await until(all_have_run, seconds, f"all {jobs} jobs have run", pause_seconds=1)
    except TimeoutError as late:
        print(f"{late}: {len(told)} have", file=sys.stderr)
    for task in (*follow, creating):
        task.cancel()
    await asyncio.gather(*follow, creating, return_exceptions=True)
    return watches


async def create(rig: Rig, bodies: Sequence[Manifest], rate: int | None) -> None:
    """Create jobs: at a rate per second, or as fast as possible."""
    if rate is None:
        await in_parallel([partial(rig.kube.create, JOBS, body) for body in bodies])
        return
    begun = time.monotonic()
    for number, body in enumerate(bodies):
        await asyncio.sleep(begun + number / rate - time.monotonic())
        await rig.kube.create(JOBS, body)


def queued_job(team: int, number: int) -> Manifest:
    body = job(f"team-{team}-{number}", SIZE)
    body["metadata"]["labels"] = {str(LABEL_QUEUE): f"team-{team}"}
    (container,) = body["spec"]["workers"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "1m"}}
    return body


def phase(one: Manifest) -> str:
    return str(one.get("status", {}).get("phase"))


async def suspend(rig: Rig, names: Iterable[str]) -> None:
    patch = {"spec": {"suspend": True}}
    await in_parallel([partial(rig.kube.patch, at_job(name), patch) for name in names])


def at_job(name: str) -> str:
    return f"{JOBS}/{name}"


def tell(watches: Watches, jobs: int, teams: int) -> None:
    both = watches.admitted_at.keys() & watches.first_pod_at.keys()
    waits = [max(0.0, watches.first_pod_at[one] - watches.admitted_at[one]) for one in both]
    facts = {"jobs": len(waits), "of": jobs, "teams": teams, "worst": round(max(waits), 3)}
    say("fleet_admission_to_pod_p50_seconds", percentile(waits, 50), "s", **facts)
    say("fleet_admission_to_pod_p99_seconds", percentile(waits, 99), "s", **facts)
    say("fleet_quota_violations", watches.violations(), "events", events=len(watches.events))


if __name__ == "__main__":
    main()
