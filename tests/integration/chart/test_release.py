"""A release from its installation to its end, with the operator and the hook as real processes.

Everything but the kubelet is real: Helm, the API server, its controllers, the rights of the chart's
account, and `python -m spotrun` in the place of the image's entry point.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from charts.manifests import CHART
from devcluster.client import at
from devcluster.cluster import Cluster
from devcluster.kubelet.runtime import Exit
from devcluster.nodes import Nodes
from devcluster.scripted import FOREVER, Context, Script, Scripted
from spotrun.api.names import FINALIZER_METERED
from spotrun.api.status import World as StoredWorld
from tests.integration.chart.helpers import Helm
from tests.integration.chart.versions import ROOT, Version, version_before
from tests.integration.process.helpers import Listening, listening, write_kubeconfig
from tests.support.cluster.operator_world import GROUP, World, open_world
from tests.support.cluster.tcp_relay import Relay, relayed

HOME, RELEASE, ACCOUNT = "fleet-system", "fleet", "fleet-spotrun"
ROOM = {"cpu": "64", "memory": "64Gi"}
TAINT = {"key": "example.com/system", "effect": "NoSchedule"}
OLD = "before"  # the tag of an image

IMAGE = {"repository": "your-registry/spotrun-operator"}
VALUES = {
    "image": IMAGE,
    "leaseSeconds": 3,
    "nodeSelector": {"example.com/system": "true"},
    "tolerations": [{"key": TAINT["key"], "operator": "Exists"}],
    "pools": [{"name": "declared", "spec": {"capacity": "Spot", "instanceTypes": ["g5.xlarge"]}}],
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of this module's own, which has never heard of spotrun."""
    with Cluster(os.environ.get("SPOTRUN_KUBERNETES", "current")) as cluster:
        yield cluster


@dataclass
class Release:
    """What a user does with Helm, and the processes that come of it."""

    helm: Helm
    cluster: Cluster
    folder: Path
    before: Version
    service: Relay
    started: list[Context] = field(default_factory=list)
    places: dict[str, Listening] = field(default_factory=dict)  # by pod

    async def do(self, *arguments: str | Path) -> str:
        """Run Helm against the cluster."""
        where = (f"--kubeconfig={self.cluster.kubeconfig}", f"--namespace={HOME}")
        return await asyncio.to_thread(self.helm, *arguments, *where)

    def values(self, **changes: Any) -> str:
        """A file of values."""
        file = self.folder / "values.yaml"
        file.write_text(yaml.safe_dump(VALUES | changes))
        return f"--values={file}"

    def script_for(self, pod: dict[str, Any]) -> Script:
        """Pods of the chart are processes; of other pods on this node there are none."""
        is_ours = pod["spec"].get("serviceAccountName") == ACCOUNT
        return Script(play=self._run) if is_ours else FOREVER

    async def _run(self, context: Context) -> Exit:
        arguments = context.container.get("args", ["operator"])
        is_old = context.container["image"].endswith(f":{OLD}")
        version = self.before if is_old else Version(ROOT)
        log = self.folder / f"{context.pod['metadata']['name']}.log"
        with log.open("ab") as file:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "spotrun", *arguments, "--namespace", HOME),
                *("--kubeconfig", str(self._account())),
                *(self._addresses(context) if arguments == ["operator"] else ()),
                env={**context.env, "PATH": os.environ["PATH"], "PYTHONPATH": version.modules},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        try:
            told = asyncio.create_task(context.terminated.wait())
            ended = asyncio.create_task(process.wait())
            self.started.append(context)
            await asyncio.wait({told, ended}, return_when=asyncio.FIRST_COMPLETED)
            told.cancel()
            if not ended.done():
                process.send_signal(signal.SIGTERM)
            return Exit(await ended, message=log.read_text()[-2000:])
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def _account(self) -> Path:
        """The rights that the chart gave, as a pod of its account has them."""
        token = self.cluster.kubectl("create", "token", ACCOUNT, "-n", HOME).stdout.strip()
        return write_kubeconfig(self.cluster, token, self.folder / "account")

    def _addresses(self, context: Context) -> tuple[str, ...]:
        """Of loopback, for the pod's own cannot be listened on; agents come to the relay."""
        place = listening(self.cluster.block.pod_address())
        self.places[context.pod["metadata"]["name"]] = place
        return (*place.flags, "--advertise", self.service.address)


@pytest.fixture
async def release(helm: Helm, cluster: Cluster, tmp_path: Path) -> AsyncIterator[Release]:
    async with relayed("", listen=(cluster.block.pod_address(), 0)) as service:
        yield Release(helm, cluster, tmp_path, version_before(tmp_path), service)


@asynccontextmanager
async def a_place_for(release: Release) -> AsyncIterator[World]:
    """A namespace with a node for workers, and a node for the operator alone."""
    runtime = Scripted(release.script_for)
    cluster = release.cluster
    async with (
        open_world(cluster) as world,
        Nodes(cluster.admin, runtime=runtime, address=cluster.block.pod_address()) as system,
    ):
        labels = {"example.com/system": "true"}
        await system.add("system", capacity=ROOM, labels=labels, taints=[TAINT])
        await world.nodes.add("training", capacity=ROOM)
        yield world


async def serving(world: World, release: Release, generation: int) -> None:
    """Wait until that generation of the Deployment is what serves, and lead agents to it."""
    path = at("deployments", HOME, ACCOUNT, group="apps/v1")

    async def is_rolled_out() -> bool:
        found = await world.kube.get(path)
        status, wanted = found.get("status", {}), found["spec"]["replicas"]
        return bool(
            found["metadata"]["generation"] == status.get("observedGeneration") == generation
            and status.get("updatedReplicas") == status.get("replicas") == wanted
            and status.get("availableReplicas") == wanted
        )

    await world.until(is_rolled_out)
    pods = await world.kube.list(at("pods", HOME), labelSelector="app.kubernetes.io/name=spotrun")
    newest = next(p["metadata"]["name"] for p in pods if "deletionTimestamp" not in p["metadata"])

    async def is_ready() -> bool:
        place = release.places.get(newest)
        if place is None:
            return False
        return await answers(f"http://{place.host}:{place.metrics_port}/readyz")

    await world.until(is_ready)
    release.service.target = release.places[newest].agents


async def answers(url: str) -> bool:
    try:
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


def is_held_back(pod: dict[str, Any]) -> bool:
    return FINALIZER_METERED in pod["metadata"].get("finalizers", ())


async def test_jobs_outlive_upgrades_and_nothing_waits_for_an_operator_that_is_gone(
    release: Release,
) -> None:
    cluster = release.cluster
    old = release.values(image={**IMAGE, "tag": OLD})
    said = await release.do("install", RELEASE, release.before.chart, "--create-namespace", old)
    assert "NOT YET MADE: your 1 CapacityPools" in said
    # It looks for new kinds of owners at its start, and then only every 30 s.
    cluster.control.kill("kube-controller-manager")
    cluster.control.start("kube-controller-manager")

    async with a_place_for(release) as world:
        await serving(world, release, 1)
        await world.create_job(workers={"min": 2, "max": 2, "replicas": 2})
        before = (await world.until_phase("Running"))["status"]
        workers = [pod["metadata"]["uid"] for pod in await world.pods()]

        changed = release.values(log={"format": "text", "level": "debug"})
        said = await release.do("upgrade", RELEASE, CHART, changed)
        assert "NOT YET MADE" not in said
        await serving(world, release, 2)
        await world.kube.get(at("capacitypools", None, "declared", group=GROUP))
        await still_the_same(world, before, workers)
        assert all(map(is_held_back, await world.pods()))

        # The hook runs as a pod of the chart; Helm waits for it.
        await release.do("uninstall", RELEASE, "--timeout=3m")
        (hook,) = (one for one in release.started if one.container["name"] == "cleanup")
        log = (release.folder / f"{hook.pod['metadata']['name']}.log").read_text()
        assert f"{world.namespace}/job: 2 pods released" in log
        await still_the_same(world, before, workers)
        pods = await world.pods()
        assert [FINALIZER_METERED in p["metadata"].get("finalizers", []) for p in pods] == [
            False
        ] * 2

        await world.kube.delete(world.jobs("job"))
        await world.until(lambda: no_pods(world))
        assert left_of_the_release(cluster) == ["customresourcedefinition"] * 4
    said = await release.do("install", RELEASE, CHART, release.values())
    assert "NOT YET MADE" not in said, "what was kept is taken over"


async def still_the_same(world: World, before: dict[str, Any], workers: list[str]) -> None:
    """The job goes on as if nothing had happened."""
    status = (await world.job())["status"]
    # An operator of an earlier release may have stored it under other names.
    assert (status["phase"], read_world(status)) == ("Running", read_world(before))
    assert [pod["metadata"]["uid"] for pod in await world.pods()] == workers


def read_world(status: dict[str, Any]) -> StoredWorld:
    """The world of a status, as the operator reads it."""
    text = json.dumps(status["world"])
    return StoredWorld.model_validate_json(text, by_alias=True, by_name=False)


async def no_pods(world: World) -> bool:
    return await world.pods() == []


def left_of_the_release(cluster: Cluster) -> list[str]:
    """The kinds of all objects that are still there and were the release's; not its Secret."""
    kinds = (
        "deployments,services,jobs,pods,serviceaccounts,roles,rolebindings,configmaps,"
        "networkpolicies,poddisruptionbudgets,clusterroles,clusterrolebindings,flowschemas,"
        "validatingadmissionpolicies,validatingadmissionpolicybindings,"
        "customresourcedefinitions,capacitypools"
    )
    ours = ("--all-namespaces", "-o", "json", "--ignore-not-found")
    found = json.loads(cluster.kubectl("get", kinds, *ours).stdout or '{"items": []}')["items"]
    return [
        one["kind"].lower()
        for one in found
        if one["metadata"].get("annotations", {}).get("meta.helm.sh/release-name") == RELEASE
        or one["metadata"].get("labels", {}).get("app.kubernetes.io/instance") == RELEASE
    ]
