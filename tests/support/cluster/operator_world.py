"""The whole operator, in this process, against a real API server and nodes with played agents."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from devcluster.addresses import free_port
from devcluster.client import ApiError, Client, Manifest, at
from devcluster.cluster import Cluster
from devcluster.kubelet.runtime import Exit
from devcluster.nodes import Nodes
from devcluster.scripted import FOREVER, Context, Script, Scripted
from spotrun.http.tls import OwnSecret
from spotrun.kube.lease import Terms
from spotrun.kube.rest.access import Credentials, from_kubeconfig
from spotrun.kube.rest.client import Client as KubeClient
from spotrun.kube.rest.transport import Transport
from spotrun.runtime.agent_server import Settings as ServerSettings
from spotrun.runtime.controller import Controller, Settings
from tests.support.cluster.kopf_front import fronted
from tests.support.cluster.scripted_agent import Play, ScriptedAgent, worker_id_of

ROOT = Path(__file__).parents[3]
GROUP = "spotrun.dev/v1alpha1"
PATIENCE_SECONDS = 60
BESIDE = {"logs": Script(stop_seconds=12)}  # outlives the first pause after a failure
QUICK = Terms(lease_seconds=3, renew_seconds=2, retry_seconds=0.3)


def install_crds(cluster: Cluster) -> None:
    """Teach a cluster what a TrainingJob is, kubectl and the garbage collector included."""
    cluster.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
    for kind in ("trainingjobs", "capacitypools", "tuningjobs", "spendlimits"):
        # It is established, then found by discovery; its schema, which kubectl reads, is last.
        end = time.monotonic() + PATIENCE_SECONDS
        while "FIELDS" not in cluster.kubectl("explain", f"{kind}.spotrun.dev", check=False).stdout:
            assert time.monotonic() < end, f"kubectl does not know {kind}"
            time.sleep(0.1)
    # It looks for new kinds of owners at its start, and then only every 30 s.
    cluster.control.kill("kube-controller-manager")
    cluster.control.start("kube-controller-manager")


@dataclass
class World:
    """A namespace with nodes, played agents and, when started, the operator."""

    patience_seconds: ClassVar[float] = PATIENCE_SECONDS
    cluster: Cluster
    kube: Client
    nodes: Nodes
    namespace: str
    host: str  # where the operator is, whichever process of it
    plays: dict[str, Play] = field(default_factory=dict)
    home: str = ""  # the namespace of the operator itself; the world's own, if not given
    port: int = field(init=False)  # where it serves agents

    def __post_init__(self) -> None:
        """Choose a port that stays the same from one replica to the next."""
        self.port = free_port(self.host)
        self.home = self.home or self.namespace

    def play(self, job: str = "job") -> Play:
        return self.plays.setdefault(job, Play())

    def settings(self, **changes: Any) -> Settings:
        """Return the settings of a replica here; `port` is where it serves agents."""
        host, port = self.host, changes.pop("port", self.port)
        chosen: dict[str, Any] = {
            "namespace": self.home,
            "watch_namespace": self.namespace,
            "advertise": f"{host}:{self.port}",
            "address": f"{host}:{port}",
            "agents": ServerSettings(host=host, port=port, step_down_seconds=0.1),
            "plain_host": host,
            "plain_port": 0,
            "terms": QUICK,
            **changes,
        }
        return Settings(**chosen)

    @asynccontextmanager
    async def operator(self, **settings: Any) -> AsyncIterator[Controller]:
        """Run one replica, as the administrator if no kubeconfig is given; several may run."""
        kubeconfig = settings.pop("kubeconfig", self.cluster.kubeconfig)
        credentials = Credentials(from_kubeconfig(kubeconfig))
        async with Transport(credentials) as transport:
            client = KubeClient(transport, field_manager="spotrun")
            source = OwnSecret(client, namespace=self.home)
            chosen = self.settings(**settings)
            async with fronted(partial(Controller, chosen, client, source)) as controller:
                yield controller

    async def create_job(self, name: str = "job", **spec: Any) -> Manifest:
        container = {"name": "trainer", "image": "x", "args": ["train.py"]}
        workers = {"template": {"spec": {"containers": [container]}}, **spec.pop("workers", {})}
        body = {
            "apiVersion": GROUP,
            "kind": "TrainingJob",
            "metadata": {"name": name},
            "spec": {"workers": workers, **spec},
        }
        return await self.kube.create(self.jobs(), body)

    async def create_search(self, name: str = "search", **spec: Any) -> Manifest:
        """Create a TuningJob of a learning rate; trials are TrainingJobs of one worker."""
        container = {"name": "trainer", "image": "x", "args": ["train.py", "--lr=$(params.lr)"]}
        template = {"workers": {"template": {"spec": {"containers": [container]}}}}
        labels = {"labels": spec.pop("labels", {})}
        chosen: dict[str, Any] = {
            "objective": {"metric": "loss"},
            "search": {"random": {"seed": 7}},
            "parameters": [{"name": "lr", "logUniform": {"min": "1e-5", "max": "1e-1"}}],
            "trials": {"max": 3},
            "template": {"metadata": labels, "spec": {**template, **spec.pop("template", {})}},
            **spec,
        }
        body = {
            "apiVersion": GROUP,
            "kind": "TuningJob",
            "metadata": {"name": name},
            "spec": chosen,
        }
        return await self.kube.create(self.searches(), body)

    async def create_limit(self, name: str = "team", **spec: Any) -> Manifest:
        """Create a SpendLimit."""
        body = {
            "apiVersion": GROUP,
            "kind": "SpendLimit",
            "metadata": {"name": name},
            "spec": spec,
        }
        return await self.kube.create(self.limits(), body)

    def limits(self, name: str | None = None) -> str:
        return at("spendlimits", self.namespace, name, group=GROUP)

    def searches(self, name: str | None = None) -> str:
        return at("tuningjobs", self.namespace, name, group=GROUP)

    async def until_search(
        self, holds: Callable[[Manifest], bool], name: str = "search"
    ) -> Manifest:
        """Wait until a search's status satisfies a predicate; returns the TuningJob."""
        return await self._until_status(self.searches(), holds, name)

    def jobs(self, name: str | None = None) -> str:
        return at("trainingjobs", self.namespace, name, group=GROUP)

    async def job(self, name: str = "job") -> Manifest:
        return await self.kube.get(self.jobs(name))

    async def patch_job(self, spec: Manifest, name: str = "job") -> None:
        await self.kube.patch(self.jobs(name), {"spec": spec})

    async def pods(self, job: str = "job") -> list[Manifest]:
        pods = await self.kube.list(
            at("pods", self.namespace), labelSelector=f"spotrun.dev/job={job}"
        )
        return sorted(pods, key=worker_id_of)

    async def until_job(self, holds: Callable[[Manifest], bool], name: str = "job") -> Manifest:
        """Wait until the job's status satisfies a predicate; returns the job."""
        return await self._until_status(self.jobs(), holds, name)

    async def _until_status(
        self, path: str, holds: Callable[[Manifest], bool], name: str
    ) -> Manifest:
        def on(job: Manifest | None) -> bool:
            return job is not None and "status" in job and holds(job["status"])

        found = await self.kube.until(path, name, on, timeout_seconds=self.patience_seconds)
        assert found is not None
        return found

    async def until_phase(self, phase: str, name: str = "job") -> Manifest:
        return await self.until_job(lambda status: status.get("phase") == phase, name)

    async def until_no_pods(self, job: str = "job") -> None:
        """Wait until none of a job's workers has a pod any more."""

        async def gone() -> bool:
            return await self.pods(job) == []

        await self.until(gone)

    async def until(self, look: Callable[[], Any]) -> Any:
        """Wait for something that no watch tells; returns what was found."""
        async with asyncio.timeout(self.patience_seconds):
            while True:
                found = await look()
                if found:
                    return found
                await asyncio.sleep(0.05)

    def agent(self, worker_id: int, job: str = "job") -> ScriptedAgent:
        return self.play(job).agents[worker_id]


@asynccontextmanager
async def open_world(cluster: Cluster) -> AsyncIterator[World]:
    """A fresh namespace; its nodes are gone afterwards, and so will the namespace be."""
    namespace = f"t-{uuid.uuid4().hex[:8]}"
    async with Client(cluster.admin) as kube:
        made: list[World] = []

        async def container(context: Context) -> Exit:
            job = context.pod["metadata"]["labels"]["spotrun.dev/job"]
            ended: Exit = await made[0].play(job).container(made[0].kube)(context)
            return ended

        def script_for(pod: Manifest) -> Script:
            # What other tests have left in this cluster is scheduled to these nodes, too, or was
            # bound to nodes of the same names: it is none of this test's workers.
            labels = pod["metadata"].get("labels", {})
            is_ours = pod["metadata"]["namespace"] == namespace and "spotrun.dev/job" in labels
            return Script(play=container, containers=BESIDE) if is_ours else FOREVER

        nodes = Nodes(
            cluster.admin,
            runtime=Scripted(script_for),
            address=cluster.block.host,
            tls=cluster.kubelet_tls(),
        )
        async with nodes:
            await kube.create(at("namespaces"), {"metadata": {"name": namespace}})
            world = World(cluster, kube, nodes, namespace, cluster.block.pod_address())
            made.append(world)
            await world.until(lambda: _exists(kube, at("serviceaccounts", namespace, "default")))
            try:
                yield world
            finally:
                await leave_nothing(kube, namespace)


async def leave_nothing(kube: Client, namespace: str) -> None:
    """Remove the namespace and its pods, which nobody else would let go of: the operator is gone.

    Pods that stay bound to a node count against the next one of its name.
    """
    with suppress_missing():
        await kube.delete(at("namespaces", None, namespace))
    for job in await kube.list(at("trainingjobs", namespace, group=GROUP)):
        if job["metadata"].get("finalizers"):
            path = at("trainingjobs", namespace, job["metadata"]["name"], group=GROUP)
            await kube.patch(path, {"metadata": {"finalizers": None}})
    for pool in await kube.list(at("capacitypools", group=GROUP)):
        await kube.delete(at("capacitypools", None, pool["metadata"]["name"], group=GROUP))
    for pod in await kube.list(at("pods", namespace)):
        path = at("pods", namespace, pod["metadata"]["name"])
        with suppress_missing():
            await kube.patch(path, {"metadata": {"finalizers": None}})
            await kube.delete(path, grace_seconds=0)


@contextmanager
def suppress_missing(*more: int) -> Iterator[None]:
    """Let pass that an object is not there, or other answers that are as good."""
    try:
        yield
    except ApiError as error:
        if error.status not in {404, *more}:
            raise


async def _exists(kube: Client, path: str) -> bool:
    try:
        await kube.get(path)
    except ApiError:
        return False
    return True
