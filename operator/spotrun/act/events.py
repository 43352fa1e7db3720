"""Kubernetes Events: their manifest, and how many a job may have.

A job has at most ten an hour: people read them in `kubectl describe`, and an event costs the API
server as much as any other write. policies/report/events.py says which changes get an event.
"""

import hashlib
from collections import deque
from datetime import datetime
from typing import Protocol

from spotrun.act.manifests.plain_json import Manifest, plain
from spotrun.api.names import API_VERSION, MANAGED_BY, TRAINING_JOB
from spotrun.policies.tuning.news import TuningNews
from spotrun.state.actions import Announce

MOST_PER_HOUR = 10
_HOUR_SECONDS = 3600.0
_NOTE_BYTES, _INSTANCE_CHARACTERS = 1024, 128  # the API's own limits


class Regarded(Protocol):
    """The object that an event is about."""

    @property
    def namespace(self) -> str:
        """The namespace of the object."""

    @property
    def name(self) -> str:
        """The name of the object."""

    @property
    def uid(self) -> str:
        """The UID of the object."""


def event(
    job: Regarded,
    announced: Announce | TuningNews,
    now: datetime,
    instance: str,
    kind: str = TRAINING_JOB,
) -> Manifest:
    """The manifest of an event about a job; the same announcement at one time has one name."""
    moment = now.isoformat(timespec="microseconds").replace("+00:00", "Z")
    tag = hashlib.sha256(f"{job.uid} {announced.reason} {moment}".encode()).hexdigest()[:16]
    return plain(
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{job.name}.{tag}", "namespace": job.namespace},
            "eventTime": moment,
            "reportingController": f"{MANAGED_BY}.dev/operator",
            "reportingInstance": instance[:_INSTANCE_CHARACTERS],
            "action": "Reconcile",
            "type": "Warning" if announced.is_warning else "Normal",
            "reason": announced.reason,
            "note": announced.message.encode()[:_NOTE_BYTES].decode(errors="ignore"),
            "regarding": {
                "apiVersion": API_VERSION,
                "kind": kind,
                "namespace": job.namespace,
                "name": job.name,
                "uid": job.uid,
            },
        }
    )


def may_announce(times: deque[float], now_seconds: float, most: int = MOST_PER_HOUR) -> bool:
    """Whether one more event is allowed within the hour; counts it if so."""
    while times and now_seconds - times[0] >= _HOUR_SECONDS:
        times.popleft()
    if len(times) >= most:
        return False
    times.append(now_seconds)
    return True
