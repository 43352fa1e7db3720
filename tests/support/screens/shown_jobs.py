"""Jobs as screens read them, with every part that a screen can show."""

from typing import Any

import msgspec

from spotrun.cli.jobs.model import Job
from spotrun.cli.jobs.pool_model import Pool
from spotrun.kube.resource import Meta
from spotrun.observe.kube_objects import EventObject, PodObject

NOW_TEXT = "2026-03-01T12:00:00Z"


def shown_job(name: str = "gpt", namespace: str = "ml", **changes: Any) -> Job:
    """Return a job that trains on spot and has lost a worker; `changes` replace parts of it."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "creationTimestamp": "2026-03-01T08:48:00Z",
        "labels": {"team": "vision"},
    }
    container = {"name": "trainer", "image": "example/gpt:1.0", "args": ["train.py"]}
    spec = {
        "workers": {"min": 2, "max": 8, "template": {"spec": {"containers": [container]}}},
        "placement": {"capacity": "Mixed"},
        "budget": {"maxCostUsd": "80"},
        "deadline": {"finishBefore": "2026-03-01T16:00:00Z"},
        "checkpoint": {"volume": {"persistentVolumeClaim": {"claimName": "gpt"}}},
        **changes.pop("spec", {}),
    }
    body = {"metadata": metadata, "spec": spec, "status": {**STATUS, **changes.pop("status", {})}}
    assert not changes
    return msgspec.convert(body, Job)


STATUS: dict[str, Any] = {
    "phase": "Running",
    "reason": "Training",
    "message": "6 workers train; 2 more have no node",
    "observedGeneration": 1,
    "workers": {
        "summary": "6/8",
        "spot": 5,
        "onDemand": 1,
        "allowed": {"size": 6, "reason": "NoCapacity"},
    },
    "world": {"number": 7, "members": "0-4,9", "active": True, "entry": "Abort"},
    "progress": {
        "step": 41200,
        "totalSteps": 100000,
        "percent": "41%",
        "samplesPerSecond": "2064",
        "eta": "2026-03-01T13:19:00Z",
    },
    "pace": {"stepSeconds": "0.0806", "workers": 6},
    "checkpoint": {"name": "step-41000.g7", "step": 41000, "time": "2026-03-01T11:59:22Z"},
    "interruptions": {
        "count": 2,
        "lostSteps": 12,
        "last": {
            "time": "2026-03-01T11:19:00Z",
            "worker": 5,
            "reason": "Reclaimed",
            "pool": "spot-a10g",
            "node": "ip-10-0-3-7",
        },
    },
    "scaling": {
        "size": 8,
        "reason": "UtilizationHigh",
        "efficiency": {"2": "1", "4": "0.97", "6": "0.91"},
    },
    "cost": {
        "usd": "38.12",
        "usdPerHour": "14.4",
        "spotUsd": "30.02",
        "onDemandUsd": "96.4",
        "savedUsd": "58.28",
        "lostWorkUsd": "1.9",
        "goodput": "93%",
        "usdPerStep": "0.00093",
        "forecastUsd": "57.1",
        "forecastLowUsd": "52",
        "forecastHighUsd": "63",
        "budgetUsedPercent": "48%",
        "pricing": "Complete",
        "asOf": "2026-03-01T11:59:30Z",
        "byPool": [{"pool": "spot-a10g", "usd": "30.02"}, {"pool": "", "usd": "8.1"}],
        "waste": {"redoneUsd": "0.4", "standstillUsd": "1.5"},
    },
    "decisions": [
        {
            "time": "2026-03-01T11:00:00Z",
            "what": "Grow",
            "why": "6 workers: the GPU computes 96% of a step, and a target is 70%",
        },
        {
            "time": "2026-03-01T11:20:00Z",
            "what": "Placed",
            "why": "2 workers are asked from spot-a10g at $1.92/h",
        },
    ],
    "conditions": [
        {"type": "Running", "status": "True", "reason": "Training"},
        {
            "type": "CapacityAvailable",
            "status": "False",
            "reason": "NoCapacity",
            "message": "2 workers have no node",
        },
        {
            "type": "OnSchedule",
            "status": "True",
            "reason": "OnPace",
            "message": "it will end 2h41m early",
        },
    ],
    "accumulators": {
        "rates": [
            {"workers": "0-4", "usdPerHour": "1.92", "isSpot": True, "pool": "spot-a10g"},
            {"workers": "9", "usdPerHour": "4.8", "isSpot": False},
            {"workers": "5", "usdPerHour": "1.92", "isSpot": True, "pool": "spot-a10g"},
        ]
    },
}

WAITING: dict[str, Any] = {
    "phase": "Pending",
    "reason": "WaitingForCapacity",
    "message": "0 of 2 workers have a node: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu",
    "workers": {"summary": "0/2"},
    "conditions": [
        {
            "type": "PricingComplete",
            "status": "False",
            "reason": "PriceUnknown",
            "message": "no price for g5.xlarge in us-east-1a",
        }
    ],
}


def shown_pools() -> tuple[Pool, ...]:
    """Return a spot pool whose price is known, and one on demand without a price."""
    spot = {
        "metadata": {"name": "spot-a10g"},
        "spec": {
            "capacity": "Spot",
            "zones": ["us-east-1a"],
            "instanceTypes": ["g5.xlarge"],
        },
        "status": {
            "price": {
                "usdPerHour": "1.92",
                "source": "AWS",
                "asOf": "2026-03-01T11:57:00Z",
            },
            "node": {"gpus": 1},
            "interruptions24h": 3,
        },
    }
    on_demand = {
        "metadata": {"name": "on-demand"},
        "spec": {"capacity": "OnDemand"},
        "status": {"unpriced": "kubectl annotate node NODE spotrun.dev/usd-per-hour=4.80"},
    }
    return tuple(msgspec.convert([spot, on_demand], list[Pool]))


def shown_pods(*worker_ids: int) -> tuple[PodObject, ...]:
    """Return running pods of workers, the last of them on its way out."""
    pods = [
        {
            "metadata": {
                "name": f"gpt-abcde-{number}",
                "creationTimestamp": "2026-03-01T09:00:00Z",
                "labels": {
                    "spotrun.dev/worker-id": str(number),
                    "spotrun.dev/capacity": "Spot",
                },
                "annotations": {"spotrun.dev/pools": "spot-a10g"},
                **({"deletionTimestamp": NOW_TEXT} if number == worker_ids[-1] else {}),
            },
            "spec": {"nodeName": f"ip-10-0-3-{number}", "containers": [{"name": "trainer"}]},
            "status": {"phase": "Running"},
        }
        for number in worker_ids
    ]
    return tuple(msgspec.convert(pods, list[PodObject]))


def shown_events(*notes: tuple[str, str, str]) -> tuple[EventObject, ...]:
    """Return events of (time, reason, note)."""
    return tuple(
        EventObject(metadata=Meta(name="e"), event_time=at, reason=reason, note=note)
        for at, reason, note in notes
    )
