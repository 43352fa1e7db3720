"""The annotations of a job that say what it costs."""

from spotrun.act.errors import Trouble, on_removal
from spotrun.act.writes import Writes, Written
from spotrun.kube.errors import KubeError
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client
from spotrun.observe.kube_objects import TRAINING_JOBS
from spotrun.state.actions import Annotate
from spotrun.state.snapshot import JobSnapshot


async def annotate(
    client: Client, writes: Writes, job: JobSnapshot, action: Annotate
) -> Trouble | None:
    """Write the annotations on the job with this UID, whatever else has changed about it."""
    meta = {"uid": job.uid, "annotations": dict(action.annotations)}
    try:
        written = await writes.do(
            "annotate",
            job.namespace,
            lambda: client.patch(
                TRAINING_JOBS, job.name, {"metadata": meta}, Written, namespace=job.namespace
            ),
        )
    except KubeError as error:
        return on_removal(error)
    key = Key(job.namespace, job.name)
    writes.reached(key, TRAINING_JOBS, job.name, written.metadata.version)
    return None
