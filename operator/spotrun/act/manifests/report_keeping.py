"""The ConfigMap that keeps a finished job for its report. Pure.

It has no owner, because it must outlive the job.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from spotrun.act.manifests.plain_json import Manifest, plain
from spotrun.api import names
from spotrun.api.field_types.secret_values import LAST_APPLIED, without_secrets
from spotrun.observe.kube_objects import EventObject

MOST_EVENTS_BYTES = 64_000
"""A cluster keeps events for an hour by default, so all events of most jobs fit."""
MOST_JOB_BYTES = 800_000
"""A ConfigMap takes 1 MiB."""


def report_config_map(
    name: str, job: Mapping[str, Any], events: Iterable[EventObject], version: str
) -> Manifest:
    """Return the ConfigMap for a job as it ended, its newest events, and the operator's version."""
    metadata = job["metadata"]
    return plain(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": metadata["namespace"],
                "labels": {
                    names.LABEL_REPORT: metadata["name"],
                    names.LABEL_JOB_UID: metadata["uid"],
                    names.LABEL_MANAGED_BY: names.MANAGED_BY,
                },
            },
            "data": {
                names.REPORT_JOB: _job(job),
                names.REPORT_EVENTS: _newest(events),
                names.REPORT_VERSION: version,
            },
        }
    )


def _job(job: Mapping[str, Any]) -> str:
    annotations = {
        key: text
        for key, text in job["metadata"].get("annotations", {}).items()
        if key != LAST_APPLIED
    }
    metadata = {key: one for key, one in job["metadata"].items() if key != "managedFields"}
    kept = {
        **job,
        "metadata": {**metadata, "annotations": annotations},
        "spec": without_secrets(job["spec"]),
    }
    text = _compact(kept)
    if len(text.encode()) <= MOST_JOB_BYTES:
        return text
    workers = {**kept["spec"]["workers"], "template": {}}
    return _compact({**kept, "spec": {**kept["spec"], "workers": workers}})


def _newest(events: Iterable[EventObject]) -> str:
    """Return as many of the newest events as fit, oldest first."""
    kept, room = list[str](), MOST_EVENTS_BYTES - len("[]")
    for one in sorted(events, key=_time, reverse=True):
        text = msgspec.json.encode(one).decode()
        room -= len(text.encode()) + len(",")
        if room < 0:
            break
        kept.append(text)
    return f"[{','.join(reversed(kept))}]"


def _time(event: EventObject) -> str:
    return event.event_time or event.deprecated_last_timestamp or ""


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
