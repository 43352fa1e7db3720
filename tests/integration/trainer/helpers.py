"""Jobs whose pods are real: torchrun and scripts as local processes, under the operator."""

import asyncio
import json
import os
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from devcluster import reaper
from devcluster.client import ApiError, Client, Manifest, at
from devcluster.cluster import Cluster
from devcluster.nodes import Machine, Nodes
from devcluster.process.options import Options
from devcluster.process.runtime import ProcessRuntime
from tests.integration.trainer.traces import Trace, pids_of, read_trace, trains
from tests.support.cluster.operator_world import ROOT, World, leave_nothing

SCRIPTS = ROOT / "tests" / "scripts"
COMPLETED = {"reason": "completed"}
_ENDED = ("Succeeded", "Failed")
_PATIENCE_SECONDS = 180  # every process imports torch, and a busy machine takes its time
_ONE_POD = {"cpu": "64", "memory": "64Gi", "pods": "1"}  # so that each worker has its own machine
_QUIET = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


FOR_LONG = ("--steps", 100_000, "--pause", 0.02)


@dataclass(kw_only=True)
class Place(World):
    """A namespace with process nodes and, when started, the operator."""

    patience_seconds: ClassVar[float] = _PATIENCE_SECONDS
    programs: ClassVar[Path] = ROOT / "trainer_image" / "bin"  # first in PATH, as in the image
    folder: Path  # of this test, as all its pods see it

    async def add_nodes(self, *names: str, labels: Mapping[str, str] | None = None) -> None:
        """Add nodes that run pods as local processes.

        No other test's nodes have these names: what is left of its pods would take their place.
        """
        for name in names:
            machine = f"{self.namespace}-{name}"
            await self.nodes.add(machine, labels=labels, capacity=_ONE_POD)

    async def start(
        self, script: Path | str, *args: object, workers: int = 2, **changes: Any
    ) -> Manifest:
        """Create a job that runs a script with so many workers."""
        environment = {**_QUIET, **changes.pop("env", {})}
        container = {
            "name": "trainer",
            "image": "none",
            "args": [str(SCRIPTS / script), *map(str, args)],
            "env": [
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                *({"name": key, "value": value} for key, value in environment.items()),
            ],
            "envFrom": changes.pop("env_from", []),
        }
        template = {"spec": {"containers": [container]}}
        sizes = {"min": workers, "max": workers, "replicas": workers, **changes.pop("sizes", {})}
        return await self.create_job(workers={**sizes, "template": template}, **changes)

    async def start_run(self, *args: object, workers: int = 2, **changes: Any) -> Manifest:
        """Create a job that runs a loop with `Run`, and keeps its checkpoints on a claim."""
        where = await self.claim()
        arguments = (self.folder, "--pause", 0.1, *args)
        return await self.start(
            "run_loop.py", *arguments, workers=workers, checkpoint=where, **changes
        )

    async def claim(self) -> Manifest:
        """Return a claim as spec.checkpoint names it; it is made if it is not there."""
        if not self.checkpoints.exists():
            await self._claim(self.checkpoints.name)
        return {"volume": {"persistentVolumeClaim": {"claimName": self.checkpoints.name}}}

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints that jobs have on their claim."""
        return self.folder / "checkpoints"

    async def _claim(self, name: str) -> None:
        """A directory of this machine as a volume of all nodes."""
        size, modes = {"storage": "1Gi"}, ["ReadWriteMany"]
        directory = self.folder / name
        directory.mkdir()
        volume = {
            "capacity": size,
            "accessModes": modes,
            "storageClassName": "",
            "hostPath": {"path": str(directory)},
            "claimRef": {"namespace": self.namespace, "name": name},
        }
        claim = {
            "accessModes": modes,
            "resources": {"requests": size},
            "storageClassName": "",
            "volumeName": self.namespace,
        }
        claims = at("persistentvolumeclaims", self.namespace)
        await self.kube.create(
            at("persistentvolumes"), {"metadata": {"name": self.namespace}, "spec": volume}
        )
        await self.kube.create(claims, {"metadata": {"name": name}, "spec": claim})
        # A kubelet that finds it unbound tries again only after 10 s.
        await self.kube.until(
            claims, name, lambda it: it is not None and it["status"].get("phase") == "Bound"
        )

    async def until_trace(self, holds: Callable[[Trace], bool]) -> Trace:
        """Wait until what the scripts have noted satisfies a predicate; returns it."""

        async def look() -> Trace | None:
            lines = self.trace()
            return lines if holds(lines) else None

        found: Trace = await self.until(look)
        return found

    async def until_trains(self, size: int, *, after: Trace | None = None) -> Trace:
        """Wait until all ranks of a world of that size have made a step; returns all such steps.

        `after`: in processes that have made none of those steps. Take it before an event, for what
        follows from that may be quicker than the next line of a test.
        """
        old = pids_of(after or ())
        lines = await self.until_trace(trains(size, but=old))
        return [line for line in lines if line["size"] == size and line["pid"] not in old]

    def trace(self) -> Trace:
        """Return the notes of the scripts so far."""
        return read_trace(self.folder / "trace.jsonl")

    def processes(self, pod: Manifest) -> set[int]:
        """All processes of a pod's trainer."""
        return reaper.marked(self.cluster.marker, f"{pod['metadata']['uid']}/trainer/0")

    async def member(self, rank: int) -> Manifest:
        """The pod of a worker of the present world."""
        members = (await self.job())["status"]["world"]["members"]
        bounds = [part.partition("-") for part in members.split(",")]
        worker_ids = [n for low, _, high in bounds for n in range(int(low), int(high or low) + 1)]
        label = str(worker_ids[rank])
        pods = await self.pods()
        return next(p for p in pods if p["metadata"]["labels"]["spotrun.dev/worker-id"] == label)

    def machine(self, pod: Manifest) -> Machine:
        """The node that a pod runs on."""
        return self.nodes[pod["spec"]["nodeName"]]

    async def until_all_ended(self, job: str = "job") -> dict[str, Any]:
        """Wait until no worker of a job runs; returns the last words of those still there, by pod.

        Workers of a job that has failed are removed, and may all be gone.
        """
        pods: list[Manifest] = []

        async def look() -> bool:
            pods[:] = await self.pods(job)
            return all(pod["status"]["phase"] in _ENDED for pod in pods)

        await self.until(look)
        return {pod["metadata"]["name"]: last_words(pod) for pod in pods}

    async def show(self) -> None:
        """Print where the job is and what its pods have logged: for the report of a failed test."""
        for job in await self.kube.list(self.jobs()):
            status = job.get("status") or {}
            print(f"--- {job['metadata']['name']}: {json.dumps(status, indent=1)}")
        for pod in await self.kube.list(at("pods", self.namespace)):
            name = pod["metadata"]["name"]
            arguments = ("logs", "-n", self.namespace, name, "--tail=80")
            ran = await asyncio.to_thread(self.cluster.kubectl, *arguments, check=False)
            print(f"--- {name}: {pod['status'].get('phase')}\n{ran.stdout}{ran.stderr}")


def last_words(pod: Manifest) -> Any:
    """Return what a pod's trainer left in its termination log; None if it runs or left nothing."""
    for status in pod["status"].get("containerStatuses", ()):
        message = status["state"].get("terminated", {}).get("message")
        if message:
            return json.loads(message.splitlines()[-1])
    return None


@asynccontextmanager
async def open_place(cluster: Cluster, folder: Path) -> AsyncIterator[Place]:
    """A fresh namespace; its pods and nodes are gone afterwards."""
    namespace = f"t-{uuid.uuid4().hex[:8]}"
    options = Options(
        root=cluster.directory / namespace,
        memory=cluster.memory,
        marker=cluster.marker,
        server=cluster.admin.server,
        path=f"{Place.programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    )
    async with Client(cluster.admin) as kube:
        nodes = Nodes(cluster.admin, address=cluster.block.host, tls=cluster.kubelet_tls())
        async with nodes:
            nodes._runtime = ProcessRuntime(nodes.client, options, cluster.block.pod_address)
            await kube.create(at("namespaces"), {"metadata": {"name": namespace}})
            place = Place(
                cluster, kube, nodes, namespace, cluster.block.pod_address(), folder=folder
            )
            await place.until(lambda: _exists(kube, at("serviceaccounts", namespace, "default")))
            try:
                yield place
            finally:
                await leave_nothing(kube, namespace)


@asynccontextmanager
async def open_telling_place(cluster: Cluster, folder: Path) -> AsyncIterator[Place]:
    """The same for a bench, which says on stderr where all stand if it loses patience."""
    async with open_place(cluster, folder) as place:
        try:
            yield place
        except TimeoutError:
            with redirect_stdout(sys.stderr):
                await place.show()
            raise


async def _exists(kube: Client, path: str) -> bool:
    with suppress(ApiError):
        await kube.get(path)
        return True
    return False
