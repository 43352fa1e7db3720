"""Where a test of the whole takes place: a namespace of the cluster, and what people do in it."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from devcluster.access import Access
from devcluster.client import Client, Manifest, Manifests, at
from tests.e2e.kind.cluster import FILES, FILES_AT_NODES, KUBECONFIG, Kind
from tests.e2e.kind.machine import ROOT

GROUP = "spotrun.dev/v1alpha1"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
PATIENCE_SECONDS = 240
"""Each worker imports torch, and all nodes share the cores of one machine."""


def is_whole(status: Manifest) -> bool:
    """Whether as many workers train as are wanted."""
    summary = (status.get("workers") or {}).get("summary", "0/1")
    there, _, wanted = summary.partition("/")
    return bool(status["phase"] == "Running" and wanted == there)


def durable_step(status: Manifest) -> int:
    """The step of the newest checkpoint that the operator acknowledged."""
    return int((status.get("checkpoint") or {}).get("step", 0))


def failures_of(status: Manifest) -> int:
    """How often the job itself has failed; losses of nodes are none."""
    return int((status.get("restarts") or {}).get("failures", 0))


@dataclass(frozen=True)
class Site:
    """A namespace that enforces Pod Security's level restricted, with room for checkpoints."""

    kind: Kind
    kube: Client
    namespace: str
    image: str

    async def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """Run kubectl as a person in this namespace would, beside whatever else is going on."""
        command = ("--namespace", self.namespace, *arguments)
        return await asyncio.to_thread(self.kind.kubectl, *command, given=given)

    async def train(self, *, steps: int, workers: int, every: str = "Auto") -> None:
        """Apply examples/tiny-lm.yaml, with our image and no more CPU than this machine has."""
        job = yaml.safe_load((ROOT / "examples/tiny-lm.yaml").read_text())
        spec = job["spec"]
        spec["workers"] |= {"min": 1, "replicas": workers}
        spec["scaling"] = {"mode": "Manual"}
        spec["placement"] = {"capacity": "Spot"}  # the operator has the node on demand
        spec["checkpoint"]["every"] = every
        (container,) = spec["workers"]["template"]["spec"]["containers"]
        container |= {"image": self.image, "args": ["examples/tiny_lm.py", f"--steps={steps}"]}
        container["env"] = [{"name": "OMP_NUM_THREADS", "value": "1"}]
        container["resources"] = {"requests": {"cpu": "200m", "memory": "512Mi"}}
        await self.kubectl("apply", "--filename=-", given=json.dumps(job))

    async def status(self) -> Manifest:
        """The status of the job, as far as there is one."""
        job = await self.kube.get(self._jobs("tiny-lm"))
        return dict(job.get("status") or {})

    async def until(
        self, holds: Callable[[Manifest], Any], seconds: float = PATIENCE_SECONDS
    ) -> Manifest:
        """Wait until the job's status is so; returns the status."""

        def on(job: Manifest | None) -> bool:
            return job is not None and "status" in job and bool(holds(job["status"]))

        found = await self.kube.until(self._jobs(), "tiny-lm", on, timeout_seconds=seconds)
        assert found is not None
        return dict(found["status"])

    async def until_end(self) -> Manifest:
        """Wait until the job has succeeded or failed; returns the status."""
        return await self.until(lambda s: s["phase"] in {"Succeeded", "Failed"})

    async def workers(self) -> Manifests:
        """The pods of the job, by serial."""
        pods = await self.kube.list(at("pods", self.namespace), labelSelector="spotrun.dev/job")
        return sorted(pods, key=lambda pod: int(pod["metadata"]["labels"]["spotrun.dev/serial"]))

    def _jobs(self, name: str | None = None) -> str:
        return at("trainingjobs", self.namespace, name, group=GROUP)


@asynccontextmanager
async def open_site(kind: Kind, image: str, name: str) -> AsyncIterator[Site]:
    """A fresh namespace; everything in it is gone afterwards."""
    namespace = f"{name}-{time.time_ns() // 1_000_000 % 10**9}"
    async with Client(access()) as kube:
        site = Site(kind, kube, namespace, image)
        checkpoints = FILES / namespace
        checkpoints.mkdir()
        checkpoints.chmod(0o777)  # as a file server's export that is every user's
        objects = {"apiVersion": "v1", "kind": "List", "items": _furniture(namespace)}
        await site.kubectl("apply", "--filename=-", given=json.dumps(objects))
        try:
            yield site
        finally:
            await site.kubectl("delete", "namespace", namespace, "--timeout=120s")
            await site.kubectl("delete", "persistentvolume", namespace, "--timeout=60s")


def _furniture(namespace: str) -> list[Manifest]:
    """The namespace, and a claim on a folder that all nodes share."""
    storage = {"resources": {"requests": {"storage": "1Gi"}}}
    claimed = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": namespace}
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace, "labels": RESTRICTED},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": namespace},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "capacity": {"storage": "1Gi"},
                "hostPath": {"path": f"{FILES_AT_NODES}/{namespace}", "type": "Directory"},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "checkpoints", "namespace": namespace},
            "spec": {**claimed, **storage},
        },
    ]


def access() -> Access:
    """How kind's admin reaches the API server."""
    config = yaml.safe_load(KUBECONFIG.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    parts = {
        "ca": cluster["certificate-authority-data"],
        "cert": user["client-certificate-data"],
        "key": user["client-key-data"],
    }
    files = {name: Path(f"{KUBECONFIG}.{name}") for name in parts}
    for name, file in files.items():
        file.touch(mode=0o600)
        file.write_bytes(base64.b64decode(parts[name]))
    return Access(cluster["server"], files["ca"], files["cert"], files["key"])
