"""The report of a deleted job: `finished.report` has kept the job in a ConfigMap."""

from dataclasses import replace
from typing import Any

import msgspec

from spotrun.api.names import LABEL_REPORT, REPORT_EVENTS, REPORT_JOB, REPORT_VERSION
from spotrun.cli.cluster.installation import Installation
from spotrun.cli.cluster.session import Cluster
from spotrun.cli.cluster.troubles import Unreadable
from spotrun.cli.jobs.model import Job
from spotrun.cli.report.content import Report, ended_at, report_on
from spotrun.kube.errors import Forbidden
from spotrun.kube.rest.client import Selection
from spotrun.observe.kube_objects import CONFIG_MAPS, ConfigMapObject, EventObject


async def kept_report(cluster: Cluster, name: str) -> Report | None:
    """Return the report of the last job of that name that kept one; None if none did.

    Raises KubeError and Unreadable.
    """
    chosen = Selection(CONFIG_MAPS, cluster.namespace, f"{LABEL_REPORT}={name}")
    try:
        found = (await cluster.client.list_all(chosen, ConfigMapObject)).items
    except Forbidden:
        return None
    kept = [(_read(one), one) for one in found]
    if not kept:
        return None
    job, newest = max(kept, key=lambda pair: ended_at(pair[0]) or "")
    return _report(cluster, job, newest)


def _report(cluster: Cluster, job: Job, kept: ConfigMapObject) -> Report:
    manifest = msgspec.json.decode(kept.data[REPORT_JOB], type=dict[str, Any])
    events = msgspec.json.decode(kept.data.get(REPORT_EVENTS, "[]"), type=tuple[EventObject, ...])
    known = Installation(version=kept.data.get(REPORT_VERSION, ""))
    report = report_on(job, manifest, events, known, cluster.client.clock.now())
    first, *others = report.sections
    note = f"The job was deleted; this is from ConfigMap {kept.metadata.name}, kept at its end."
    return replace(report, sections=(replace(first, notes=(*first.notes, note)), *others))


def _read(kept: ConfigMapObject) -> Job:
    try:
        return msgspec.json.decode(kept.data.get(REPORT_JOB, ""), type=Job)
    except msgspec.MsgspecError as error:
        raise Unreadable(f"ConfigMap {kept.metadata.name}: {error}") from error
