"""The job of the demo: an example of this repository, changed to run on this machine."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

ROOT = Path(__file__).parents[1]
NAMESPACE = "default"
SIZES = {"min": 2, "max": 3, "replicas": 3}
"""The minimum of workers: two continue while the third is being replaced."""
PLACEMENT = {"onDemandBase": 1}
"""The on-demand node has room for one worker: it is the safest place, so rank 0 has it."""
EVERY = "5s"
"""The time between checkpoints; losses come every half a minute."""
# Three trainers share a few cores with a whole Kubernetes; their output must appear at once.
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
_DEFAULT_REQUESTS = {"cpu": "1", "memory": "1Gi"}


@dataclass(frozen=True)
class Job:
    """A TrainingJob that can run on process nodes."""

    manifest: Manifest

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self.manifest["metadata"]["name"])

    @property
    def container(self) -> str:
        """The container that trains."""
        return str(_trainer(self.manifest)["name"])

    @property
    def claim(self) -> str | None:
        """The PersistentVolumeClaim that it keeps checkpoints in."""
        place = self.manifest["spec"].get("checkpoint") or {}
        claim = (place.get("volume") or {}).get("persistentVolumeClaim")
        return str(claim["claimName"]) if claim else None

    def in_bucket(self, uri: str, environment: Mapping[str, str]) -> "Job":
        """Return the job with its checkpoints in an object store instead of a volume."""
        job = copy.deepcopy(self.manifest)
        place = {k: v for k, v in (job["spec"].get("checkpoint") or {}).items() if k != "volume"}
        job["spec"]["checkpoint"] = {"every": EVERY, **place, "uri": uri}
        trainer = _trainer(job)
        theirs = [entry for entry in trainer.get("env") or () if entry["name"] not in environment]
        ours = [{"name": name, "value": text} for name, text in environment.items()]
        trainer["env"] = [*theirs, *ours]
        trainer.pop("envFrom", None)
        return Job(job)

    @property
    def room(self) -> Mapping[str, str]:
        """The capacity of a node that has room for exactly one worker."""
        resources = _trainer(self.manifest).get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        return {name: str(quantity) for name, quantity in asked.items()}


@dataclass(frozen=True)
class Local:
    """The differences between this cluster and the one that the example is written for."""

    scripts: Path  # the files of an image: process nodes pull none
    steps: int  # few enough that the demo ends within two minutes


def load(file: Path, local: Local) -> Job:
    """Read a TrainingJob's manifest; raises ValueError with what to fix."""
    try:
        content = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        words = " ".join(str(error).split())  # of YAML they are several lines
        raise ValueError(f"{file} cannot be read as a manifest: {words}") from None
    match content:
        case {
            "kind": "TrainingJob",
            "metadata": {"name": str()},
            "spec": {"workers": {"template": {"spec": {"containers": [{"name": str()}, *_]}}}},
        }:
            return Job(localized(content, local))
    raise ValueError(
        f"{file} is not the manifest of one TrainingJob with a name and a container: name a file "
        "with one"
    )


def localized(manifest: Manifest, local: Local) -> Manifest:
    """Return the manifest for three workers of one thread each, on this machine.

    Missing requests of a worker are added, so that a node has room for one.
    """
    job = copy.deepcopy(manifest)
    job["metadata"]["namespace"] = NAMESPACE
    job["spec"]["workers"] |= SIZES
    job["spec"]["workers"].pop("sizes", None)
    job["spec"]["placement"] = (job["spec"].get("placement") or {}) | PLACEMENT
    # The demo shows what happens to nodes, not the utilization of three threads on a few cores.
    job["spec"]["scaling"] = {"mode": "Manual"}
    trainer = _trainer(job)
    trainer["workingDir"] = str(local.scripts)
    trainer["args"] = [_with_steps(word, local.steps) for word in trainer.get("args") or ()]
    theirs = [entry for entry in trainer.get("env") or () if entry["name"] not in _ENVIRONMENT]
    ours = [{"name": name, "value": text} for name, text in _ENVIRONMENT.items()]
    trainer["env"] = [*theirs, *ours]
    if job["spec"].get("checkpoint"):
        job["spec"]["checkpoint"]["every"] = EVERY
    resources = trainer.setdefault("resources", {})
    resources["requests"] = _DEFAULT_REQUESTS | (resources.get("requests") or {})
    return job


def _with_steps(word: str, steps: int) -> str:
    return f"--steps={steps}" if word.startswith("--steps=") else word


def volume(claim: str, directory: Path) -> list[Manifest]:
    """A claim, and a directory of this machine that all nodes share as its volume."""
    size, modes = {"storage": "1Gi"}, ["ReadWriteMany"]
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": claim},
            "spec": {
                "capacity": size,
                "accessModes": modes,
                "storageClassName": "",
                "hostPath": {"path": str(directory)},
                "claimRef": {"namespace": NAMESPACE, "name": claim},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "namespace": NAMESPACE},
            "spec": {
                "accessModes": modes,
                "resources": {"requests": size},
                "storageClassName": "",
                "volumeName": claim,
            },
        },
    ]


def _trainer(manifest: Manifest) -> Manifest:
    containers: list[Manifest] = manifest["spec"]["workers"]["template"]["spec"]["containers"]
    for container in containers:
        if len(containers) == 1 or container["name"] == "trainer":
            return container
    raise ValueError("no container of the job is named trainer: give the one that trains this name")
