"""The files that the jobs of a test write and the test reads: two ways to one claim."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from devcluster.client import Manifest, Manifests
from tests.e2e import jobs
from tests.e2e.kind.machine import SetupError

Kubectl = Callable[..., str]

TRACE = "trace.jsonl"
"""The file in which scripts note what they do, in their folder."""
READER = "reader"
READY_SECONDS = 600
"""The time for a volume to be made, and for a node to fetch an image of gigabytes."""

_SIZE = {"resources": {"requests": {"storage": "1Gi"}}}
_SHARED = {"accessModes": ["ReadWriteMany"]}
_PRINT_TRACES = f"""
import json, pathlib
folder = pathlib.Path({jobs.FOLDER!r})
files = [*folder.glob({TRACE!r}), *folder.glob("*/{TRACE}")]
print(json.dumps([file.read_text() for file in files]))
"""


class Files(Protocol):
    """The claim that all workers of a namespace write to."""

    def make(self, namespace: str) -> None:
        """Make the claim, in a namespace that is there."""

    def traces(self, namespace: str) -> list[str]:
        """Return the notes of each worker so far, the last line perhaps not to its end."""

    def remove(self, namespaces: Iterable[str]) -> None:
        """Remove what is left of claims whose namespaces are gone."""


@dataclass(frozen=True)
class SharedFolder:
    """A folder of this machine that nodes have as well."""

    kubectl: Kubectl
    here: Path
    at_nodes: str

    def make(self, namespace: str) -> None:
        """Make the claim, like a file server's export that is every user's."""
        folder = self.here / namespace
        folder.mkdir()
        folder.chmod(0o777)
        made = volume_and_claim(namespace, f"{self.at_nodes}/{namespace}")
        self.kubectl("apply", "--filename=-", given=jobs.listed(made))

    def traces(self, namespace: str) -> list[str]:
        """Read on this machine."""
        folder = self.here / namespace
        return [file.read_text() for name in (TRACE, f"*/{TRACE}") for file in folder.glob(name)]

    def remove(self, namespaces: Iterable[str]) -> None:
        """Volumes are named after their namespaces."""
        self.kubectl(
            "delete", "persistentvolume", *namespaces, "--ignore-not-found", "--timeout=60s"
        )


@dataclass(frozen=True)
class StorageClassFiles:
    """Claims that a storage class serves, read by a pod beside the workers."""

    kubectl: Kubectl
    storage_class: str
    image: str

    def make(self, namespace: str) -> None:
        """Wait for the reader as well: it shows that the class can do what jobs ask of it."""
        made = claim_and_reader(namespace, self.storage_class, self.image)
        self.kubectl("apply", "--filename=-", given=jobs.listed(made))
        inside = f"--namespace={namespace}"
        try:
            ready = ("--for=condition=Ready", f"--timeout={READY_SECONDS}s")
            self.kubectl("wait", inside, f"pod/{READER}", *ready)
        except SetupError as error:
            events = self.kubectl("get", "events", inside, "--sort-by=.lastTimestamp")
            raise SetupError(
                f"no pod could use a claim of the storage class {self.storage_class} within "
                f"{READY_SECONDS} s: name one with STORAGE_CLASS that makes ReadWriteMany volumes, "
                f"and with TRAINER_IMAGE an image that nodes can pull\n{events}"
            ) from error

    def traces(self, namespace: str) -> list[str]:
        """Read by the pod."""
        command = ("exec", READER, "--", "python3", "-c", _PRINT_TRACES)
        found: list[str] = json.loads(self.kubectl(f"--namespace={namespace}", *command))
        return found

    def remove(self, namespaces: Iterable[str]) -> None:
        """Wait until whoever made the volumes has removed them."""
        gone = set(namespaces)
        listed = json.loads(self.kubectl("get", "persistentvolumes", "--output=json"))["items"]
        ours = [volume["metadata"]["name"] for volume in listed if _namespace_of(volume) in gone]
        if ours:
            waited = (f"persistentvolume/{name}" for name in ours)
            self.kubectl("wait", "--for=delete", *waited, "--timeout=300s")


def volume_and_claim(namespace: str, folder: str) -> Manifests:
    """A folder that all nodes have, as a volume for one namespace."""
    spec = {
        **_SHARED,
        "storageClassName": "",
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": folder, "type": "Directory"},
        "claimRef": {"namespace": namespace, "name": jobs.CLAIM},
    }
    volume = jobs.core_object("PersistentVolume", namespace, spec=spec)
    return [volume, _claim(namespace, storageClassName="", volumeName=namespace)]


def claim_and_reader(namespace: str, storage_class: str, image: str) -> Manifests:
    """A claim, and a pod that does nothing but have it at hand."""
    claimed = {jobs.FOLDER: {"persistentVolumeClaim": {"claimName": jobs.CLAIM}}}
    reader = jobs.bare_pod(READER, namespace, image, "sleep", "infinity", volumes=claimed)
    return [_claim(namespace, storageClassName=storage_class), reader]


def _claim(namespace: str, **spec: str) -> Manifest:
    return jobs.core_object(
        "PersistentVolumeClaim", jobs.CLAIM, namespace, spec={**_SHARED, **_SIZE, **spec}
    )


def _namespace_of(volume: Manifest) -> str | None:
    namespace: str | None = volume["spec"].get("claimRef", {}).get("namespace")
    return namespace
