"""The time that a team waits for a pod while another team creates jobs without end.

In the quiet namespace, a job of one worker is created and deleted after its first pod exists, again
and again, in turns with a Kubernetes Job, which does not use the operator. This is done in four
phases: alone; while the crowd's namespace gets its jobs as fast as the API server accepts them;
while labels of these jobs are changed as fast; and while all of them exist without changes. Half of
the crowd's jobs fit on no node; of the other half Kubernetes always refuses every pod.

The crowd has the rights of an administrator, so the API server does not limit it: there are no flow
schemas and no object counts in quotas, which would limit it.

Run as `.venv/bin/python bench/neighbours.py [--quick] [--jobs 2000] [--seconds 40]`.
"""

import argparse
import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import msgspec
import uvloop

from bench.operator_bench import (
    GROUP,
    PODS,
    Child,
    Rig,
    cpu_seconds,
    in_parallel,
    job,
    peak_rss_mb,
    percentile,
    say,
)
from devcluster.argument_types import how_many
from devcluster.client import Manifest, at
from devcluster.cluster import Cluster
from spotrun.api.names import LABEL_JOB
from spotrun.kube.resource import Resource
from spotrun.kube.rest.client import Selection

QUIET, CROWD = "quiet", "crowd"
PROBES_LEAST = 5
POD_SECONDS = 60.0
PAUSE_SECONDS = 0.1
IS_JOBS = "batch.kubernetes.io/job-name"  # the label of a Job's pods


class Meta(msgspec.Struct, frozen=True):
    labels: dict[str, str] = {}


class Pod(msgspec.Struct, frozen=True):
    metadata: Meta


class Event(msgspec.Struct, frozen=True):
    type: str
    object: Pod


READ = msgspec.json.Decoder(Event)


class Probes:
    """Jobs of the quiet namespace, one after the other, and the time each waits for a pod."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._numbers = itertools.count()
        self._awaited: dict[str, asyncio.Future[float]] = {}

    async def follow(self, version: int) -> None:
        """Watch all pods of the namespace from a version on."""
        selection = Selection(Resource("", "v1", "pods"), QUIET)
        async for line in self._rig.lines(selection, version):
            seen_at, labels = time.monotonic(), READ.decode(line).object.metadata.labels
            name = labels.get(LABEL_JOB) or labels.get(IS_JOBS, "")
            awaited = self._awaited.get(name)
            if awaited is not None and not awaited.done():
                awaited.set_result(seen_at)

    async def take(self, until: Callable[[], bool]) -> tuple[list[float], list[float]]:
        """Create pairs of a TrainingJob and a Job until the condition holds; return their waits."""
        ours: list[float] = []
        theirs: list[float] = []
        while len(ours) < PROBES_LEAST or not until():
            number = next(self._numbers)
            trainings = at("trainingjobs", QUIET, group=GROUP)
            ours.append(await self._one(trainings, job(f"training-{number}", 1)))
            batch = at("jobs", QUIET, group="batch/v1")
            theirs.append(await self._one(batch, plain_job(f"plain-{number}")))
            await asyncio.sleep(PAUSE_SECONDS)
        return ours, theirs

    async def _one(self, path: str, body: Manifest) -> float:
        name = body["metadata"]["name"]
        awaited: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._awaited[name] = awaited
        begun = time.monotonic()
        await self._rig.kube.create(path, body)
        seen_at = await asyncio.wait_for(awaited, POD_SECONDS)
        del self._awaited[name]
        await self._rig.kube.delete(f"{path}/{name}", propagation="Background")
        return seen_at - begun


def plain_job(name: str) -> Manifest:
    container = {"name": "trainer", "image": "registry.example/train:1"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template},
    }


class Crowd:
    """Many jobs of one namespace, none of which ever trains."""

    def __init__(self, rig: Rig, jobs: int) -> None:
        self._rig = rig
        self._names = [f"crowd-{number}" for number in range(jobs)]
        self._path = at("trainingjobs", CROWD, group=GROUP)

    async def create(self) -> None:
        bodies = [crowd_job(name, refused=bool(n % 2)) for n, name in enumerate(self._names)]
        await in_parallel([partial(self._rig.kube.create, self._path, body) for body in bodies])

    async def change(self, seconds: float) -> int:
        """Change a label of each job in turn, for some seconds; return the number of changes."""
        until = time.monotonic() + seconds
        count = 0

        async def one(name: str, number: int) -> None:
            nonlocal count
            if time.monotonic() < until:
                patch = {"metadata": {"labels": {"team": f"team-{number % 7}"}}}
                await self._rig.kube.patch(f"{self._path}/{name}", patch)
                count += 1

        number = 0
        while time.monotonic() < until:
            number += 1
            await in_parallel([partial(one, name, number) for name in self._names])
        return count


def crowd_job(name: str, *, refused: bool) -> Manifest:
    """A job that fits on no node, or one whose pods are refused: their class does not exist."""
    body = job(name, 1)
    spec = body["spec"]["workers"]["template"]["spec"]
    if refused:
        spec["priorityClassName"] = "there-is-none"
    else:
        spec["nodeSelector"] = {"there-is": "none"}
    return body


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="30 jobs, 2 s a phase")
    parser.add_argument("--jobs", type=how_many, default=2000, help="of the crowd")
    parser.add_argument("--seconds", type=float, default=40.0, help="of each phase")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.jobs, arguments.seconds = 30, 2.0
    with Cluster() as cluster:
        uvloop.run(measure(cluster, arguments.jobs, arguments.seconds))


async def measure(cluster: Cluster, jobs: int, seconds: float) -> None:
    async with Rig(cluster) as rig, rig.nodes(100), rig.operator(plays=True) as operator:
        await operator.hear("synced")
        for name in (QUIET, CROWD):
            await rig.kube.create(at("namespaces"), {"metadata": {"name": name}})
            await rig.kube.until(at("serviceaccounts", name), "default", bool)
        async with probing(rig) as probes:
            crowd = Crowd(rig, jobs)
            phase = partial(tell_phase, operator, probes)
            await phase("alone", asyncio.sleep(seconds), 0)
            await phase("created", crowd.create(), jobs)
            await phase("changed", crowd.change(seconds), jobs)
            await phase("there", asyncio.sleep(seconds), jobs)
        say("neighbours_rss_mb", peak_rss_mb(operator.pid), "MB", jobs=jobs)


@asynccontextmanager
async def probing(rig: Rig) -> AsyncIterator[Probes]:
    probes = Probes(rig)
    following = asyncio.create_task(probes.follow(await rig.version(PODS)))
    try:
        yield probes
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


async def tell_phase(
    operator: Child, probes: Probes, name: str, doing: Awaitable[int | None], jobs: int
) -> None:
    """Take probes while something is done; print how long they have waited."""
    task = asyncio.ensure_future(doing)
    begun, used = time.monotonic(), cpu_seconds(operator.pid)
    try:
        ours, theirs = await probes.take(task.done)
        changes = await task
    finally:
        task.cancel()
    took = time.monotonic() - begun
    share = (cpu_seconds(operator.pid) - used) / took
    facts = {"jobs": jobs, "phase_seconds": round(took, 1), "operator_cores": round(share, 2)}
    if changes is not None:
        facts["changes_per_second"] = round(changes / took)
    for percent in (50, 99):
        say(
            f"neighbours_{name}_p{percent}_seconds",
            percentile(ours, percent),
            "s",
            plain_job=round(percentile(theirs, percent), 3),
            worst=round(max(ours), 3),
            probes=len(ours),
            **facts,
        )


if __name__ == "__main__":
    main()
