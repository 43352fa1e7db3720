"""Writing `workers.replicas`, through the subresource that autoscalers use."""

from spotrun.act.errors import Trouble, on_removal
from spotrun.act.writes import Writes, Written
from spotrun.kube.errors import KubeError
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client
from spotrun.observe.kube_objects import TRAINING_JOBS
from spotrun.state.actions import Resize
from spotrun.state.snapshot import JobSnapshot


async def resize(
    client: Client, writes: Writes, job: JobSnapshot, action: Resize
) -> Trouble | None:
    """Write another size, if the job has not changed since that was decided.

    If a user or an autoscaler writes a size in between, the API server refuses this write, and the
    operator decides again.
    """
    patch: list[dict[str, object]] = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": job.version},
        {"op": "add", "path": "/spec/replicas", "value": action.replicas},
    ]
    try:
        written = await writes.do(
            "scale",
            job.namespace,
            lambda: client.patch(
                TRAINING_JOBS,
                job.name,
                patch,
                Written,
                namespace=job.namespace,
                subresource="scale",
            ),
        )
    except KubeError as error:
        return on_removal(error)
    key = Key(job.namespace, job.name)
    writes.reached(key, TRAINING_JOBS, job.name, written.metadata.version)
    return None
