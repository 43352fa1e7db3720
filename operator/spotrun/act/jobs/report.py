"""The report of a finished job, kept in a ConfigMap of its namespace."""

from importlib.metadata import version
from typing import Any

from spotrun.act.errors import Trouble, is_terminating, on_removal
from spotrun.act.jobs.annotations import annotate
from spotrun.act.manifests.plain_json import Manifest
from spotrun.act.manifests.report_keeping import report_config_map
from spotrun.act.writes import Writes, Written
from spotrun.api.names import ANNOTATION_KEPT_REPORT
from spotrun.kube.errors import AlreadyExists, KubeError
from spotrun.kube.rest.client import Client, Selection
from spotrun.observe.kube_objects import CONFIG_MAPS, EVENTS, TRAINING_JOBS, EventObject
from spotrun.state.actions import Annotate
from spotrun.state.names import owned_name
from spotrun.state.snapshot import JobSnapshot


async def keep_report(client: Client, writes: Writes, job: JobSnapshot) -> Trouble | None:
    """Create the ConfigMap, then name it in an annotation of the job, which says that it exists.

    Its name follows from the job's UID, so a ConfigMap of that name is the same one.
    """
    name = f"{owned_name(job.name, job.uid)}-report"
    try:
        body = await _config_map(client, job, name)
        await writes.do(
            "report",
            job.namespace,
            lambda: client.create(CONFIG_MAPS, body, Written, namespace=job.namespace),
        )
    except AlreadyExists:
        pass
    except KubeError as error:
        return Trouble(is_terminating=True) if is_terminating(error) else on_removal(error)
    return await annotate(client, writes, job, Annotate({str(ANNOTATION_KEPT_REPORT): name}))


async def _config_map(client: Client, job: JobSnapshot, name: str) -> Manifest:
    """Read the job and its events as they are stored now: a cache may lag behind both."""
    manifest = await client.get(TRAINING_JOBS, job.name, dict[str, Any], namespace=job.namespace)
    about = Selection(EVENTS, job.namespace, field_selector=f"regarding.uid={job.uid}")
    events = (await client.list_all(about, EventObject)).items
    return report_config_map(name, manifest, events, version("spotrun"))
