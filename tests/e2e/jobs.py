"""The jobs that are tried: the example, and scripts of the tests in our image. Pure."""

from typing import Any

import yaml

from devcluster.client import Manifest, Manifests
from tests.e2e.kind.machine import ROOT

GROUP = "spotrun.dev/v1alpha1"
CLAIM, SCRIPTS = "checkpoints", "scripts"
FOLDER = "/work"
"""The claim, as scripts see it; what they note there this machine reads."""

_SCRIPTS_AT_WORKERS = "/scripts"
_ENVIRONMENT = [{"name": "OMP_NUM_THREADS", "value": "1"}]
_LITTLE = {"requests": {"cpu": "200m", "memory": "512Mi"}}
"""All nodes share the cores of one machine."""
TOGETHER: Manifest = {"affinity": {}}
"""A change of the pod: several workers may share a node."""
_APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {
                    "matchExpressions": [{"key": "spotrun.dev/job", "operator": "Exists"}]
                },
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
}
"""As on machines that are as large as their workers."""


def example(image: str, *, steps: int, workers: int) -> Manifest:
    """examples/tiny-lm.yaml, with our image and no more CPU than this machine has."""
    job: Manifest = yaml.safe_load((ROOT / "examples/tiny-lm.yaml").read_text())
    spec = job["spec"]
    spec["workers"] |= {"min": 1, "replicas": workers}
    spec |= _on_spot_nodes()
    (container,) = spec["workers"]["template"]["spec"]["containers"]
    container |= {"image": image, "args": ["examples/tiny_lm.py", f"--steps={steps}"]}
    container |= {"env": _ENVIRONMENT, "resources": _LITTLE}
    return job


def scripted(
    name: str, image: str, script: str, *arguments: object, workers: int, **changes: Any
) -> Manifest:
    """A job that runs one of tests/scripts, with one worker on each of two nodes."""
    container = {
        "name": "trainer",
        "image": image,
        "args": [f"{_SCRIPTS_AT_WORKERS}/{script}", *map(str, arguments)],
        "env": _ENVIRONMENT,
        "resources": _LITTLE,
        "volumeMounts": [
            {"name": SCRIPTS, "mountPath": _SCRIPTS_AT_WORKERS, "readOnly": True},
            {"name": "work", "mountPath": FOLDER},
        ],
        **changes.pop("container", {}),
    }
    pod = {
        "containers": [container],
        "affinity": _APART,
        "volumes": [
            {"name": SCRIPTS, "configMap": {"name": SCRIPTS}},
            {"name": "work", "persistentVolumeClaim": {"claimName": CLAIM}},
        ],
        **changes.pop("pod", {}),
    }
    sizes = {"min": 1, "max": 2, "replicas": workers, **changes.pop("sizes", {})}
    return {
        "apiVersion": GROUP,
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "workers": {**sizes, "template": {"spec": pod}},
            **_on_spot_nodes(),
            **changes,
        },
    }


def on_claim(claim: str = CLAIM) -> Manifest:
    """Where checkpoints are kept."""
    return {"volume": {"persistentVolumeClaim": {"claimName": claim}}}


def furniture(namespace: str, folder: str) -> Manifests:
    """The namespace, the scripts, and a claim on a folder that all nodes share."""
    scripts = {path.name: path.read_text() for path in (ROOT / "tests/scripts").glob("*.py")}
    storage = {"resources": {"requests": {"storage": "1Gi"}}}
    shared = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    return [
        _object("Namespace", namespace, labels=restricted),
        _object(
            "PersistentVolume",
            namespace,
            spec={
                **shared,
                "capacity": {"storage": "1Gi"},
                "hostPath": {"path": folder, "type": "Directory"},
                "claimRef": {"namespace": namespace, "name": CLAIM},
            },
        ),
        _object(
            "PersistentVolumeClaim",
            CLAIM,
            namespace,
            spec={**shared, **storage, "volumeName": namespace},
        ),
        _object("ConfigMap", SCRIPTS, namespace, data=scripts),
    ]


def _on_spot_nodes() -> Manifest:
    """The operator has the node on demand; nobody but the test changes the number of workers."""
    return {"scaling": {"mode": "Manual"}, "placement": {"capacity": "Spot"}}


def _object(
    kind: str,
    name: str,
    namespace: str | None = None,
    labels: dict[str, str] | None = None,
    **rest: Any,
) -> Manifest:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    found = {key: value for key, value in metadata.items() if value is not None}
    return {"apiVersion": "v1", "kind": kind, "metadata": found, **rest}
