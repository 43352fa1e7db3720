"""The jobs that are tried: the example, and scripts of the tests in our image. Pure."""

import json
from collections.abc import Mapping
from typing import Any

import yaml

from devcluster.client import Manifest, Manifests
from tests.e2e.kind.machine import ROOT

GROUP = "spotrun.dev/v1alpha1"
CLAIM, SCRIPTS = "checkpoints", "scripts"
FOLDER = "/work"
"""The claim, as scripts see it; what they note there the tests read."""
OWN_FOLDER = "/own"
"""A folder of the claim for each worker: of two machines that append to one file of a file server
each may overwrite what the other wrote."""
SCRIPTS_FOLDER = "/scripts"

_SMALL = [{"name": "OMP_NUM_THREADS", "value": "1"}]
ENVIRONMENT = [*_SMALL, {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
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
"""Pods keep apart, as on machines that are as large as their workers."""


def example(image: str, placement: Manifest, *, steps: int, workers: int) -> Manifest:
    """examples/tiny-lm.yaml, with our image, little CPU, and one worker on each of two nodes."""
    job: Manifest = yaml.safe_load((ROOT / "examples/tiny-lm.yaml").read_text())
    spec = job["spec"]
    spec["workers"] |= {"min": 1, "replicas": workers}
    spec |= _undisturbed(placement)
    pod = spec["workers"]["template"]["spec"]
    pod["affinity"] = _APART
    (container,) = pod["containers"]
    container |= {"image": image, "args": ["examples/tiny_lm.py", f"--steps={steps}"]}
    container |= {"env": _SMALL, "resources": _LITTLE}
    return job


def scripted(
    name: str,
    image: str,
    placement: Manifest,
    script: str,
    *arguments: object,
    workers: int,
    **changes: Any,
) -> Manifest:
    """A job that runs one of tests/scripts, with one worker on each of two nodes."""
    container = {
        "name": "trainer",
        "image": image,
        "args": [f"{SCRIPTS_FOLDER}/{script}", *map(str, arguments)],
        "env": ENVIRONMENT,
        "resources": _LITTLE,
        "volumeMounts": [
            {"name": SCRIPTS, "mountPath": SCRIPTS_FOLDER, "readOnly": True},
            {"name": "work", "mountPath": FOLDER},
            {"name": "work", "mountPath": OWN_FOLDER, "subPathExpr": "$(POD)"},
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
            **_undisturbed(placement),
            **changes,
        },
    }


def on_claim(claim: str = CLAIM) -> Manifest:
    """Return the checkpoint storage on a claim."""
    return {"volume": {"persistentVolumeClaim": {"claimName": claim}}}


def furniture(namespace: str) -> Manifests:
    """A namespace, and the scripts in it."""
    scripts = {path.name: path.read_text() for path in (ROOT / "tests/scripts").glob("*.py")}
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    return [
        core_object("Namespace", namespace, labels=restricted),
        core_object("ConfigMap", SCRIPTS, namespace, data=scripts),
    ]


def bare_pod(
    name: str, namespace: str, image: str, *command: str, volumes: Mapping[str, Manifest]
) -> Manifest:
    """A pod that is no worker, as the level restricted has them; `volumes` by where they are."""
    container = {
        "name": name,
        "image": image,
        "command": list(command),
        "env": _SMALL,
        "volumeMounts": [
            {"name": f"volume-{i}", "mountPath": path, "readOnly": True}
            for i, path in enumerate(volumes)
        ],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "securityContext": {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [{"name": f"volume-{i}", **volume} for i, volume in enumerate(volumes.values())],
    }
    return core_object("Pod", name, namespace, spec=spec)


def listed(manifests: Manifests) -> str:
    """Return a List that `kubectl apply` reads."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})


def _undisturbed(placement: Manifest) -> Manifest:
    """Return a spec's part by which nobody but the test changes the number of workers."""
    return {"scaling": {"mode": "Manual"}, **({"placement": placement} if placement else {})}


def core_object(
    kind: str,
    name: str,
    namespace: str | None = None,
    labels: dict[str, str] | None = None,
    **rest: Any,
) -> Manifest:
    """An object of the group without a name."""
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    found = {key: value for key, value in metadata.items() if value is not None}
    return {"apiVersion": "v1", "kind": kind, "metadata": found, **rest}
