"""The operator's reaction time: workers are killed at random in 1,000 running jobs of 8.

It is the time from when a watch of pods, independent of the operator's, sees a worker end (half are
deleted, half crash) until a watch of jobs sees the first later write to the job's status. Both
watches and the clock are in this process. Nodes are scripted; the agents are simulated in the
operator's process, without connections.

Run as `.venv/bin/python bench/reaction.py [--quick] [--jobs 1000] [--kills 300] [--suspended 0]`.
"""

import argparse
import asyncio
import random
import time
from dataclasses import dataclass, field
from statistics import fmean

import msgspec
import uvloop

from bench.operator_bench import (
    FIXED_WORK,
    JOBS,
    NAMESPACE,
    PODS,
    Child,
    Rig,
    cpu_seconds,
    fixed_work_seconds,
    percentile,
    phases,
    rss_mb,
    say,
    until,
)
from devcluster.argument_types import how_many, writable_file
from devcluster.client import Manifests, at
from devcluster.cluster import Cluster
from spotrun.api.names import LABEL_JOB, LABEL_JOB_UID
from spotrun.kube.resource import Resource
from spotrun.kube.rest.client import Selection

SIZE = 8
START_SECONDS = 1800
REACTION_SECONDS = 60


class Meta(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str
    labels: dict[str, str] = {}
    deletion_timestamp: str | None = None


class Status(msgspec.Struct, frozen=True):
    phase: str = ""


class Spec(msgspec.Struct, frozen=True):
    taints: tuple[object, ...] = ()  # of a node


class Seen(msgspec.Struct):
    metadata: Meta
    spec: Spec = Spec()
    status: Status = Status()


class Event(msgspec.Struct):
    type: str
    object: Seen


READ = msgspec.json.Decoder(Event)


@dataclass
class Kill:
    """One worker's end, by the clock of this process."""

    job: str
    asked_at: float
    version: int = 0  # of the pod, when it was seen to have ended
    seen_at: float = 0.0
    written_at: float = 0.0


@dataclass
class Watches:
    """Watches of pods and jobs, and the kills that they have seen."""

    kills: dict[str, Kill] = field(default_factory=dict)  # by pod
    by_job: dict[str, Kill] = field(default_factory=dict)
    num_writes: int = 0

    async def follow_pods(self, rig: Rig, version: int) -> None:
        selection = Selection(Resource("", "v1", "pods"), NAMESPACE, label_selector=LABEL_JOB_UID)
        async for line in rig.lines(selection, version):
            seen_at = time.monotonic()
            pod = READ.decode(line).object
            kill = self.kills.get(pod.metadata.name)
            has_ended = pod.metadata.deletion_timestamp or pod.status.phase == "Failed"
            if kill is not None and has_ended and not kill.seen_at:
                kill.version, kill.seen_at = int(pod.metadata.resource_version), seen_at

    async def follow_jobs(self, rig: Rig, version: int) -> None:
        selection = Selection(Resource("spotrun.dev", "v1alpha1", "trainingjobs"), NAMESPACE)
        waiting: list[tuple[Kill, int, float]] = []
        async for line in rig.lines(selection, version):
            seen_at = time.monotonic()
            self.num_writes += 1
            meta = READ.decode(line).object.metadata
            kill = self.by_job.get(meta.name)
            if kill is not None and not kill.written_at:
                waiting.append((kill, int(meta.resource_version), seen_at))
            # The write may be seen a moment before the end of the pod that it answers.
            for one, written, moment in waiting:
                if one.seen_at and written > one.version and not one.written_at:
                    one.written_at = moment
            waiting = [entry for entry in waiting if not entry[0].written_at]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10 jobs, 10 kills")
    parser.add_argument("--jobs", type=how_many, default=1000)
    parser.add_argument("--kills", type=how_many, default=300)
    parser.add_argument(
        "--suspended", type=int, default=0, help="so many jobs more have no workers"
    )
    parser.add_argument(
        "--idle-seconds", type=float, default=15, help="how long nothing happens before the kills"
    )
    parser.add_argument("--without-kopf", action="store_true", help="to compare")
    parser.add_argument("--per-second", type=float, default=5.0)
    parser.add_argument(
        "--profile", type=writable_file, help="write a cProfile of the operator here"
    )
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.jobs, arguments.kills, arguments.suspended = 10, 10, 2
        arguments.idle_seconds = 2
    with Cluster() as cluster:
        uvloop.run(measure(cluster, arguments))


async def measure(cluster: Cluster, arguments: argparse.Namespace) -> None:
    flags = ["--without-kopf"] if arguments.without_kopf else []
    async with (
        Rig(cluster, *flags) as rig,
        rig.nodes(2 * arguments.jobs * SIZE) as nodes,
        rig.operator(plays=True) as operator,
    ):
        await operator.hear("synced")
        await start(rig, arguments.jobs, arguments.suspended)
        idle_cores = await idle(operator, arguments.jobs, arguments.idle_seconds)
        if arguments.profile:
            await operator.ask("profile")
        usual = fixed_work_seconds()
        before, began = cpu_seconds(operator.pid), time.monotonic()
        watches = await kill_some(rig, nodes, arguments.kills, arguments.per_second)
        took = time.monotonic() - began
        cpu = cpu_seconds(operator.pid) - before - idle_cores * took
        if arguments.profile:
            await operator.ask("dump", file=str(arguments.profile))
        tell(watches, arguments.jobs)
        facts = {"jobs": arguments.jobs, "kills": arguments.kills}
        all_jobs = {"jobs": arguments.jobs, "suspended": arguments.suspended}
        per_kill, usual = cpu / arguments.kills, fmean((usual, fixed_work_seconds()))
        say("reaction_cpu_per_kill", per_kill * 1e3, "ms", **facts)
        say("reaction_cpu_ratio", per_kill / usual, FIXED_WORK, **facts)
        say("reaction_status_writes_per_kill", watches.num_writes / arguments.kills, "writes")
        say("reaction_idle_cores", idle_cores, "cores", **all_jobs)
        say("reaction_rss_mb", rss_mb(operator.pid), "MB", **all_jobs)


async def start(rig: Rig, jobs: int, suspended: int, size: int = SIZE) -> None:
    """Create the jobs; return when all jobs with workers train."""
    await rig.create_jobs((f"idle-{number}" for number in range(suspended)), size, suspend=True)
    began = time.monotonic()
    await rig.create_jobs((f"bench-{number}" for number in range(jobs)), size)

    async def all_run() -> bool:
        return phases((await rig.kube.get(JOBS))["items"]).get("Running", 0) == jobs

    await until(all_run, START_SECONDS, f"all {jobs} jobs are Running", pause_seconds=2)
    say("jobs_started_seconds", time.monotonic() - began, "s", jobs=jobs, pods=jobs * size)


async def idle(operator: Child, jobs: int, seconds: float) -> float:
    """Return the number of cores that the operator uses while nothing happens."""
    last, looked = 0, 2 * jobs + 2
    while looked > 1 + jobs / 8:  # each running job has a pass once a minute
        now = (await operator.ask("stats"))["decisions"]
        last, looked = now, now - last
        await asyncio.sleep(3)
    before = cpu_seconds(operator.pid)
    await asyncio.sleep(seconds)
    return (cpu_seconds(operator.pid) - before) / seconds


async def kill_some(rig: Rig, nodes: Child, kills: int, per_second: float) -> Watches:
    """Kill one worker of one job after the other; return after a reaction to each."""
    chosen = random.Random(1)  # noqa: S311 - the same workers in each run
    by_job: dict[str, list[str]] = {}
    for pod in await all_pods(rig):
        by_job.setdefault(pod["metadata"]["labels"][LABEL_JOB], []).append(pod["metadata"]["name"])
    jobs = chosen.sample(sorted(by_job), min(kills, len(by_job)))
    watches = Watches()
    follow = [
        asyncio.create_task(watches.follow_pods(rig, await rig.version(PODS))),
        asyncio.create_task(watches.follow_jobs(rig, await rig.version(JOBS))),
    ]
    await asyncio.sleep(0.5)
    for number, job in enumerate(jobs):
        name = chosen.choice(sorted(by_job[job]))
        watches.kills[name] = watches.by_job[job] = Kill(job, time.monotonic())
        if number % 2:
            await nodes.ask("crash", pod=name)
        else:
            await rig.kube.delete(at("pods", NAMESPACE, name))
        await asyncio.sleep(chosen.expovariate(per_second))

    async def all_answered() -> bool:
        for task in follow:
            if task.done():
                await task  # it failed
        return all(kill.written_at for kill in watches.kills.values())

    await until(all_answered, REACTION_SECONDS, "every kill was answered by a write")
    for task in follow:
        task.cancel()
    await asyncio.gather(*follow, return_exceptions=True)
    return watches


async def all_pods(rig: Rig) -> Manifests:
    return await rig.kube.list(PODS, labelSelector=str(LABEL_JOB_UID))


def tell(watches: Watches, jobs: int) -> None:
    kills = list(watches.kills.values())
    reactions = [1e3 * max(0.0, kill.written_at - kill.seen_at) for kill in kills]
    in_all = [1e3 * (kill.written_at - kill.asked_at) for kill in kills]
    facts = {"jobs": jobs, "kills": len(kills), "worst": round(max(reactions), 1)}
    say("reaction_p50_ms", percentile(reactions, 50), "ms", **facts)
    say("reaction_p99_ms", percentile(reactions, 99), "ms", **facts)
    say("reaction_from_request_p50_ms", percentile(in_all, 50), "ms", jobs=jobs)
    say("reaction_from_request_p99_ms", percentile(in_all, 99), "ms", jobs=jobs)


if __name__ == "__main__":
    main()
