"""Jobs whose pods are real: torchrun and scripts as local processes, under the operator."""

import asyncio
import json
import os
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from typing_extensions import override

from devcluster import reaper
from devcluster.client import ApiError, Client, Manifest, at
from devcluster.cluster import Cluster
from devcluster.nodes import Machine, Nodes
from devcluster.process.options import Options
from devcluster.process.runtime import ProcessRuntime
from tests.operator_world import ROOT, World

SCRIPTS = ROOT / "tests" / "scripts"
COMPLETED = {"reason": "completed"}
_ENDED = ("Succeeded", "Failed")
_PATIENCE_SECONDS = 180  # every process imports torch, and a busy machine takes its time
_ONE_POD = {"cpu": "64", "memory": "64Gi", "pods": "1"}  # so that each worker has its own machine
_QUIET = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


FOR_LONG = ("--steps", 100_000, "--pause", 0.02)
Trace = list[dict[str, Any]]


@dataclass(kw_only=True)
class Place(World):
    """A namespace with process nodes and, when started, the operator."""

    folder: Path  # of this test, as all its pods see it

    async def add_nodes(self, *names: str) -> None:
        """Add nodes that run pods as local processes.

        No other test's nodes have these names: what is left of its pods would take their place.
        """
        for name in names:
            await self.nodes.add(f"{self.namespace}-{name}", capacity=_ONE_POD)

    async def start(
        self, script: Path | str, *args: object, workers: int = 2, **changes: Any
    ) -> Manifest:
        """Create a job that runs a script with so many workers."""
        environment = {**_QUIET, **changes.pop("env", {})}
        container = {
            "name": "trainer",
            "image": "none",
            "args": [str(SCRIPTS / script), *map(str, args)],
            "env": [{"name": key, "value": value} for key, value in environment.items()],
        }
        template = {"spec": {"containers": [container]}}
        sizes = {"min": workers, "max": workers, "replicas": workers, **changes.pop("sizes", {})}
        return await self.create_job(workers={**sizes, "template": template}, **changes)

    @override
    async def until_job(self, holds: Callable[[Manifest], bool], name: str = "job") -> Manifest:
        def on(job: Manifest | None) -> bool:
            return job is not None and "status" in job and holds(job["status"])

        found = await self.kube.until(self.jobs(), name, on, timeout_seconds=_PATIENCE_SECONDS)
        assert found is not None
        return found

    @override
    async def until(self, look: Callable[[], Any]) -> Any:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                found = await look()
                if found:
                    return found
                await asyncio.sleep(0.05)

    async def until_trace(self, holds: Callable[[Trace], bool]) -> Trace:
        """Wait until what the scripts have noted satisfies a predicate; returns it."""

        async def look() -> Trace | None:
            lines = self.trace()
            return lines if holds(lines) else None

        found: Trace = await self.until(look)
        return found

    def trace(self) -> Trace:
        """What the scripts have noted in their folder, a line for each step."""
        file = self.folder / "trace.jsonl"
        if not file.exists():
            return []
        return [json.loads(line) for line in file.read_text().rpartition("\n")[0].splitlines()]

    def processes(self, pod: Manifest) -> set[int]:
        """All processes of a pod's trainer."""
        return reaper.marked(self.cluster.marker, f"{pod['metadata']['uid']}/trainer/0")

    def pids(self) -> frozenset[int]:
        """The processes that have made a step so far."""
        return frozenset(line["pid"] for line in self.trace())

    async def member(self, rank: int) -> Manifest:
        """The pod of a worker of the present world."""
        members = (await self.job())["status"]["world"]["members"]
        bounds = [part.partition("-") for part in members.split(",")]
        serials = [n for low, _, high in bounds for n in range(int(low), int(high or low) + 1)]
        label = str(serials[rank])
        pods = await self.pods()
        return next(p for p in pods if p["metadata"]["labels"]["spotrun.dev/serial"] == label)

    def machine(self, pod: Manifest) -> Machine:
        """The node that a pod runs on."""
        return self.nodes[pod["spec"]["nodeName"]]

    async def until_all_ended(self, job: str = "job") -> dict[str, Any]:
        """Wait until no worker of a job runs; returns the last words by pod."""

        async def look() -> dict[str, Any] | None:
            pods = await self.pods(job)
            words = {pod["metadata"]["name"]: last_words(pod) for pod in pods}
            return words if all(pod["status"]["phase"] in _ENDED for pod in pods) else None

        found: dict[str, Any] = await self.until(look)
        return found

    async def show_logs(self) -> None:
        """Print what the pods have logged: for the report of a test that fails."""
        for pod in await self.pods():
            name = pod["metadata"]["name"]
            arguments = ("logs", "-n", self.namespace, name, "--tail=80")
            ran = await asyncio.to_thread(self.cluster.kubectl, *arguments, check=False)
            print(f"--- {name}: {pod['status'].get('phase')}\n{ran.stdout}{ran.stderr}")


def trains(size: int, *, but: frozenset[int] = frozenset()) -> Callable[[Trace], bool]:
    """Holds once all ranks of a world of that size have made a step, in processes but these."""

    def holds(lines: Trace) -> bool:
        found = {x["rank"] for x in lines if x["size"] == size and x["pid"] not in but}
        return len(found) == size

    return holds


def print_phases(what: str, lines: Trace, but: frozenset[int], job: Manifest, at: float) -> None:
    """Print how long it took from an event to another world, and to the first step in it."""
    first = min(line["time"] for line in lines if line["pid"] not in but)
    formed_at = datetime.fromisoformat(job["status"]["world"]["formedAt"]).timestamp()
    print(f"{what}: world {formed_at - at:.2f} s, first step {first - at:.2f} s")


def last_words(pod: Manifest) -> Any:
    """What a pod's trainer left in its termination log; None if it runs or left nothing."""
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
        path=f"{Path(sys.executable).parent}:{os.environ['PATH']}",
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
            yield place
            await kube.delete(at("namespaces", None, namespace))


async def _exists(kube: Client, path: str) -> bool:
    with suppress(ApiError):
        await kube.get(path)
        return True
    return False
