"""The site of a test of the whole: a namespace of the cluster, and what people do in it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from devcluster.client import Client, Manifest, Manifests, at
from spotrun.api.field_types.text_values import WorkerIds
from tests.e2e import jobs
from tests.e2e.api import open_client
from tests.e2e.cluster import Cluster
from tests.e2e.kind.cluster import Kind
from tests.e2e.kind.machine import SetupError
from tests.e2e.namespaces import Namespaces
from tests.e2e.operator_pods import show_operator
from tests.integration.trainer.traces import Trace, whole_lines

EXAMPLE, JOB = "tiny-lm", "job"
FOR_EVER, PAUSE_SECONDS = 100_000, 0.1
"""A number of steps that no test waits for, and the extra time that each step takes."""


def is_whole(status: Manifest) -> bool:
    """Whether as many workers train as are wanted."""
    summary = (status.get("workers") or {}).get("summary", "0/1")
    there, _, wanted = summary.partition("/")
    return bool(status["phase"] == "Running" and wanted == there)


@dataclass(frozen=True)
class Site:
    """A namespace that enforces Pod Security's level restricted, with room for checkpoints."""

    cluster: Cluster
    kube: Client
    namespace: str
    image: str
    stock: str = ""  # an image with Python and torch alone, on kind

    @property
    def kind(self) -> Kind:
        """The nodes as machines, for tests that are `kind_only`."""
        assert isinstance(self.cluster, Kind)
        return self.cluster

    async def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """Run kubectl as a person in this namespace would, beside whatever else is going on."""
        command = ("--namespace", self.namespace, *arguments)
        return await asyncio.to_thread(self.cluster.kubectl, *command, given=given)

    async def apply(self, *manifests: Manifest) -> None:
        """kubectl apply."""
        await self.kubectl("apply", "--filename=-", given=jobs.listed([*manifests]))

    async def start(
        self, script: str, *arguments: object, workers: int = 2, name: str = JOB, **changes: Any
    ) -> None:
        """Create a job that runs a script of the tests."""
        where = (self.image, self.cluster.placement)
        made = jobs.scripted(name, *where, script, *arguments, workers=workers, **changes)
        await self.apply(made)

    async def start_example(self, *, steps: int, workers: int) -> None:
        """Create the job that users are shown first, in a small size."""
        where = (self.image, self.cluster.placement)
        await self.apply(jobs.example(*where, steps=steps, workers=workers))

    async def start_run(self, *, steps: int = FOR_EVER, **changes: Any) -> None:
        """Create a job with checkpoints that notes after each step what its weights are."""
        told = (jobs.OWN_FOLDER, "--steps", steps, "--pause", PAUSE_SECONDS)
        await self.start("run_loop.py", *told, checkpoint=jobs.on_claim(), **changes)

    async def status(self, name: str = JOB) -> Manifest:
        """The status of the job, as far as there is one."""
        job = await self.kube.get(self._jobs(name))
        return dict(job.get("status") or {})

    async def until(
        self,
        holds: Callable[[Manifest], Any],
        name: str = JOB,
    ) -> Manifest:
        """Wait until the job's status is so; returns the status."""

        def on(job: Manifest | None) -> bool:
            return job is not None and "status" in job and bool(holds(job["status"]))

        patience = self.cluster.patience_seconds
        found = await self.kube.until(self._jobs(), name, on, timeout_seconds=patience)
        assert found is not None
        return dict(found["status"])

    async def until_end(self, name: str = JOB) -> Manifest:
        """Wait until the job has succeeded or failed; returns the status."""
        return await self.until(lambda s: s["phase"] in {"Succeeded", "Failed"}, name)

    async def until_trains(self, size: int, *, since: float = 0.0) -> Trace:
        """Wait until all ranks of a world of that size have made a step, and return all such steps.

        `since`: steps after that moment. Take it before an event, for what follows from that may
        be quicker than the next line of a test.
        """
        async with asyncio.timeout(self.cluster.patience_seconds):
            while True:
                lines = [x for x in await self.trace() if x["size"] == size and x["time"] > since]
                if len({line["rank"] for line in lines}) == size:
                    return lines
                await asyncio.sleep(0.1)

    async def trace(self) -> Trace:
        """Return the notes of the scripts so far, by time; a rehearsal is no step."""
        texts = await asyncio.to_thread(self.cluster.files.traces, self.namespace)
        lines = [line for text in texts for line in whole_lines(text) if line["step"] > 0]
        return sorted(lines, key=lambda line: float(line["time"]))

    async def workers(self, name: str = JOB) -> Manifests:
        """The pods of a job, by worker id."""
        pods = await self.kube.list(
            at("pods", self.namespace), labelSelector=f"spotrun.dev/job={name}"
        )
        return sorted(pods, key=lambda pod: int(pod["metadata"]["labels"]["spotrun.dev/worker-id"]))

    async def node_of(self, rank: int) -> str:
        """The node of a worker of the present world."""
        members = WorkerIds((await self.status())["world"]["members"]).numbers
        pods = {
            int(p["metadata"]["labels"]["spotrun.dev/worker-id"]): p for p in await self.workers()
        }
        return str(pods[members[rank]]["spec"]["nodeName"])

    async def until_left(self, node: str) -> None:
        """Wait until no worker of the job is on a node."""
        async with asyncio.timeout(self.cluster.patience_seconds):
            while True:
                if node not in {pod["spec"].get("nodeName") for pod in await self.workers()}:
                    return
                await asyncio.sleep(0.2)

    async def until_no_workers(self, name: str = JOB) -> None:
        """Wait until no pod of a job is left."""
        selector = f"--selector=spotrun.dev/job={name}"
        # A worker has 120 s to save its state.
        await self.kubectl("wait", "--for=delete", "pod", selector, "--timeout=180s")

    async def show(self) -> None:
        """Print where all jobs are, and what was logged: for the report of a failed test."""
        for job in await self.kube.list(self._jobs()):
            status = json.dumps(job.get("status"), indent=1)
            print(f"--- {job['metadata']['name']}: {json.dumps(job['spec'])}\n{status}")
        for line in (await self.trace())[-20:]:
            print(line)
        for arguments in (("get", "nodes,pods", "--output=wide"), ("get", "events")):
            print(await self.kubectl(*arguments))
        for pod in await self.kube.list(at("pods", self.namespace)):
            name = pod["metadata"]["name"]
            print(f"--- {name}\n{await self._logs(name)}")
        await show_operator(self.cluster, self.kube)

    async def _logs(self, pod: str) -> str:
        try:
            return await self.kubectl("logs", pod, "--tail=60")
        except SetupError as error:  # it has not begun, or its node is away
            return str(error)

    def _jobs(self, name: str | None = None) -> str:
        return at("trainingjobs", self.namespace, name, group=jobs.GROUP)


@asynccontextmanager
async def open_site(
    namespaces: Namespaces, image: str, name: str, *, stock: str = ""
) -> AsyncIterator[Site]:
    """A fresh namespace; no pod of it is left afterwards, and soon nothing."""
    namespace = await asyncio.to_thread(namespaces.open, name)
    try:
        async with open_client(namespaces.cluster) as kube:
            yield Site(namespaces.cluster, kube, namespace, image, stock)
    finally:
        await asyncio.to_thread(namespaces.leave, namespace)
