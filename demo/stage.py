"""The stage of the demo: a Kubernetes, its nodes, and the operator with only its own rights."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from demo.job import NAMESPACE, ROOT, Job, Manifest, volume
from demo.market import POOLS, NewNode, first_nodes
from demo.operating import Operator, OperatorError, operating
from devcluster.client import Client, at
from devcluster.cluster import Cluster
from devcluster.nodes import Nodes
from devcluster.process.options import Options
from devcluster.process.runtime import ProcessRuntime

Tell = Callable[[str], None]

_MANIFESTS = (
    "crds",
    "manifests/rbac.yaml",
    "manifests/rbac-users.yaml",
    "manifests/admission.yaml",
)
_LAST_LINES = 15
_KNOWN_SECONDS = 120.0


@dataclass
class Stage:
    """A cluster with nodes, on which the operator serves one job."""

    cluster: Cluster
    nodes: Nodes
    runtime: ProcessRuntime
    operator: Operator
    job: Job

    async def add_node(self, node: NewNode) -> None:
        """Let a node with room for one worker join."""
        await self.nodes.add(
            node.name,
            labels=node.labels,
            annotations=node.annotations,
            capacity=self.job.room,
            runtime=self.runtime,
        )

    async def submit(self) -> None:
        """Apply the job, as a user does."""
        await _apply(self.cluster, [self.job.manifest])

    async def last_lines(self, pod: str) -> str:
        """Return the end of a worker's log, or why there is none."""
        arguments = ("logs", "-n", NAMESPACE, pod, f"--tail={_LAST_LINES}")
        ran = await asyncio.to_thread(self.cluster.kubectl, *arguments, check=False)
        return (ran.stdout or ran.stderr).strip()


@asynccontextmanager
async def open_stage(cluster: Cluster, job: Job, tell: Tell) -> AsyncIterator[Stage]:
    """Prepare a running cluster for the demo; nodes and operator end with the block."""
    tell("installing the CRDs, the operator's rights and the admission policy")
    files = [word for name in _MANIFESTS for word in ("-f", str(ROOT / name))]
    await asyncio.to_thread(cluster.kubectl, "apply", "--server-side", *files)
    if job.claim is not None:
        await _apply(cluster, volume(job.claim, cluster.directory / "checkpoints"))
    tls, host, port = cluster.kubelet_tls(), cluster.block.host, cluster.block.ports.kubelets
    async with Nodes(cluster.admin, address=host, port=port, tls=tls) as nodes:
        tell("starting the operator as a process, with the rights of its service account only")
        async with operating(cluster, nodes.client) as operator:
            stage = Stage(cluster, nodes, _runtime(cluster, nodes), operator, job)
            tell("adding three nodes: two spot pools in two zones, and one on-demand")
            for node in first_nodes():
                await stage.add_node(node)
            await _until_known(operator, nodes.client)
            yield stage


async def _until_known(operator: Operator, client: Client) -> None:
    """Wait until the operator has found each pool: it places workers in the pools that it knows."""
    pools = at("capacitypools", group="spotrun.dev/v1alpha1")
    found: set[str] = set()
    try:
        async with asyncio.timeout(_KNOWN_SECONDS), aclosing(client.watch(pools)) as changes:
            async for change in changes:
                found.add(change.object["metadata"]["name"])
                if len(found) == len(POOLS):
                    return
    except TimeoutError:
        raise OperatorError(
            f"the operator has found {len(found)} of {len(POOLS)} pools after "
            f"{_KNOWN_SECONDS:.0f} s. The end of its log:\n{operator.last_lines()}"
        ) from None


def _runtime(cluster: Cluster, nodes: Nodes) -> ProcessRuntime:
    options = Options(
        root=cluster.directory / "pods",
        memory=cluster.memory,
        marker=cluster.marker,
        server=cluster.admin.server,
        # torchrun is in the same folder as the Python that runs this.
        path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    )
    return ProcessRuntime(nodes.client, options, cluster.block.pod_address)


async def _apply(cluster: Cluster, manifests: list[Manifest]) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    await asyncio.to_thread(cluster.kubectl, "apply", "--server-side", "-f", "-", input=text)
