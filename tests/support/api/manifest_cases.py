"""Manifests, good and bad: one table for the Python models and for the API server.

A bad manifest is a good one with a change, so each case shows both sides of what it is about.
"""

import copy
from dataclasses import dataclass, field
from typing import Any

from spotrun.api import load

Manifest = dict[str, Any]

LEFT_OUT = object()
TRAINER = {"name": "trainer", "image": "your-registry/train:1"}
TEMPLATE = "workers.template"
CONTAINERS = f"{TEMPLATE}.spec.containers"


def changed(manifest: Manifest, changes: dict[str, Any], root: str = "spec") -> Manifest:
    """Return a copy with values put at paths below `root`; LEFT_OUT takes one away."""
    result = copy.deepcopy(manifest)
    for path, value in changes.items():
        steps = (
            path.removeprefix("/").split(".") if path.startswith("/") else [root, *path.split(".")]
        )
        place: Any = result
        for step in steps[:-1]:
            place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
        last: Any = int(steps[-1]) if isinstance(place, list) else steps[-1]
        if value is LEFT_OUT:
            del place[last]
        else:
            place[last] = copy.deepcopy(value)
    return result


def job(changes: dict[str, Any] | None = None) -> Manifest:
    """Return the smallest job, with changes."""
    smallest = {
        "apiVersion": "spotrun.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "job"},
        "spec": {"workers": {"template": {"spec": {"containers": [TRAINER]}}}},
    }
    return changed(smallest, changes or {})


def pool(changes: dict[str, Any] | None = None) -> Manifest:
    """Return the smallest pool, with changes."""
    smallest = {
        "apiVersion": "spotrun.dev/v1alpha1",
        "kind": "CapacityPool",
        "metadata": {"name": "pool"},
        "spec": {"capacity": "Spot", "instanceTypes": ["g5.xlarge"]},
    }
    return changed(smallest, changes or {})


FULL = job(
    {
        "suspend": True,
        "managedBy": "kueue.x-k8s.io/multikueue",
        "priority": -5,
        "workers.min": 2,
        "workers.max": 8,
        "workers.replicas": 100,
        "workers.sizes": [2, 4, 8],
        "workers.perReplica": 2,
        "workers.processes": 4,
        f"{TEMPLATE}.metadata": {"labels": {"team": "vision"}, "annotations": {"a/b": "c d"}},
        f"{TEMPLATE}.spec.restartPolicy": "Never",
        f"{TEMPLATE}.spec.nodeSelector": {"disk": "ssd"},
        f"{TEMPLATE}.other": {"deep": [None, 1.5]},
        CONTAINERS: [
            {**TRAINER, "args": ["train.py", "--lr=3e-4"], "env": [{"name": "A", "value": ""}]},
            {"name": "side", "image": "your-registry/side:1", "command": ["sh"], "x": None},
        ],
        "scaling": {
            "mode": "Auto",
            "targets": [
                {"resource": "GPU", "utilizationPercent": 100, "tolerancePercent": 0},
                {"resource": "CPU"},
            ],
            "minEfficiency": "1.0",
            "hourWorthUsd": "2.50",
            "scaleUpAfter": "0s",
            "scaleDownAfter": "1h30m0.5s",
        },
        "placement": {
            "capacity": "Mixed",
            "onDemandBase": 8,
            "homogeneous": "None",
            "zones": "Single",
            "replicaTopology": {"required": "example.com/rack"},
            "maxPricePercent": 70,
            "maxPercentPerPool": 50,
            "maxPercentPerZone": 100,
            "fallbackAfter": "0s",
            "giveBackAfter": "2h",
            "poolSelector": {
                "matchLabels": {"example.com/tier": "cheap"},
                "matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["b", ""]},
                    {"key": "c", "operator": "Exists"},
                ],
            },
        },
        "deadline": {"finishWithin": "60h", "onMissed": "OnDemand"},
        "budget": {
            "maxCostUsd": "120",
            "maxUsdPerHour": "30.000000000001",
            "warnAtPercent": [1, 50, 100],
            "onExceeded": "Suspend",
            "unpriced": "Allow",
        },
        "schedule.windows": [
            {"days": ["Mon-Fri"], "from": "20:00", "to": "06:00", "timeZone": "Europe/Berlin"},
            {"days": ["Sat", "Sun"], "from": "00:00", "to": "24:00"},
            {"from": "12:00", "to": "13:00", "timeZone": "America/Argentina/Buenos_Aires"},
        ],
        "idle.suspendAfter": "15m",
        "checkpoint": {"uri": "s3://bucket/a/b", "every": "10m", "keep": 1},
        "failures": {"maxRestarts": 0, "fatalExitCodes": [1, 255], "hangAfter": "30m"},
        "stages": [
            {
                "name": "short",
                "args": ["--length", "128", ""],
                "params": {"lr": "1e-3", "_a1": ""},
                "untilStep": 1000,
                "stopWhen": {"metric": "loss", "noBetterReports": 5},
            },
            {"name": "middle", "stopWhen": {"metric": "loss", "goal": "1"}},
            {"name": "long", "untilStep": 2000},
        ],
        "stopWhen": {
            "metric": "val/loss",
            "direction": "Maximize",
            "goal": "-1e-3",
            "noBetterReports": 1,
            "noBetterSteps": 1000,
            "minImprovement": "1e-4",
        },
        "finished.deleteAfter": "24h",
    }
)
FULL_POOL = pool(
    {
        "instanceTypes": ["g5.xlarge", "g6.xlarge"],
        "zones": ["us-east-1a", "us-east-1b"],
        "region": "us-east-1",
        "capacity": "Reserved",
        "nodeSelector": {"example.com/pool": "gpu"},
        "tolerations": [
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
            {"key": "b", "value": "c"},
            {"operator": "Exists"},
        ],
        "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]},
        "usdPerHour": "0.3125",
        "maxWorkers": 64,
    }
)
OWN_NODES = {
    "purchaseUsd": "290000",
    "years": "4",
    "powerKw": "7.5",
    "usdPerKwh": "0.14",
    "pue": "1.3",
    "usdPerMonth": "2500",
    "utilization": "0.8",
}
OWN_POOL = pool({"capacity": "Reserved", "ownNodes": OWN_NODES})
CLAIM = {"persistentVolumeClaim": {"claimName": "checkpoints"}}
BUDGET = job({"budget.maxCostUsd": "10", "checkpoint.volume": CLAIM})
WINDOW = {"from": "20:00", "to": "06:00"}
SCHEDULE = job({"schedule.windows": [WINDOW], "checkpoint.uri": "gs://bucket"})
DEADLINE = job({"deadline.finishWithin": "60h"})
SELECTOR = job({"placement.poolSelector.matchLabels": {"a": "b"}})
SEVERAL = job({CONTAINERS: [TRAINER, {"name": "side", "image": "i", "command": ["sh"]}]})
EXPRESSION = "placement.poolSelector.matchExpressions"

VALID: dict[str, Manifest] = {
    "the smallest job": job(),
    "a job with everything": FULL,
    "the smallest pool": pool(),
    "a pool with everything": FULL_POOL,
    "a pool of own nodes": OWN_POOL,
    "a pool of own nodes with the least of them": pool(
        {"capacity": "OnDemand", "ownNodes": {"purchaseUsd": "8000", "years": "0.5"}}
    ),
    "a pool by labels only": pool({"instanceTypes": LEFT_OUT, "nodeSelector": {"a": "b"}}),
    "replicas outside of min and max": job({"workers.replicas": 0}),
    "one container of any name": job({f"{CONTAINERS}.0.name": "anything"}),
    "an empty command": job({f"{CONTAINERS}.0.command": []}),
    "side containers with a command": SEVERAL,
    "a budget by rate needs no checkpoint": job({"budget.maxUsdPerHour": "3"}),
    "a budget that fails needs none": job({"budget": {"maxCostUsd": "3", "onExceeded": "Fail"}}),
    "no warnings": job({"budget": {"maxUsdPerHour": "3", "warnAtPercent": []}}),
    "a budget that suspends": BUDGET,
    "a schedule": SCHEDULE,
    "checkpoints on nfs": job({"checkpoint.volume.nfs": {"server": "nfs", "path": "/a"}}),
    "checkpoints on csi": job(
        {
            "checkpoint.volume.csi": {
                "driver": "efs.csi.aws.com",
                "fsType": "ext4",
                "volumeAttributes": {"a": "b"},
                "nodePublishSecretRef": {"name": "s"},
            }
        }
    ),
    "checkpoints in an emptyDir": job(
        {"checkpoint.volume.emptyDir": {"medium": "Memory", "sizeLimit": "1.5Gi"}}
    ),
    "a beginning from another job": job(
        {
            "checkpoint.uri": "s3://bucket",
            "checkpoint.beginFrom": {"job": "base", "checkpoint": "step-300.g1"},
        }
    ),
    "an empty emptyDir": job({"checkpoint.volume.emptyDir": {}}),
    "checkpoints in Azure": job({"checkpoint.uri": "az://account/container/a@b=c,..d/.e%20"}),
    "a moment as deadline": job({"deadline.finishBefore": "2028-02-29T23:59:59.123456+05:30"}),
    "a name of 50 characters": job({"/metadata.name": "a" * 50}),
    "an empty selector": job({"placement.poolSelector": {}}),
    "nulls where a value is optional": job(
        {"workers.min": None, "placement": None, "budget": None}
    ),
    "on-demand with a deadline": changed(DEADLINE, {"placement.capacity": "OnDemand"}),
}


def refusal(manifest: Manifest) -> str:
    """Return what the models say against a manifest: nothing when they accept it."""
    try:
        load(manifest)
    except ValueError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class Case:
    """A change that makes a good manifest bad, and what is said about it."""

    name: str
    message: str
    changes: dict[str, Any]
    base: Manifest = field(default_factory=job)
    # The API server's own words, where they differ from ours.
    server: str | None = None

    @property
    def manifest(self) -> Manifest:
        return changed(self.base, self.changes)

    @property
    def server_message(self) -> str:
        return self.server or self.message
