"""Withdrawal of a worker that has no node yet, and gets none in the meantime.

The deletion names the version that the decision was made on. A pod that was bound since then has
another, so the API server refuses, and the operator decides again. Our finalizer stays until the
worker's cost is settled, as with every other pod: a pod without it that is bound at the same moment
would run unmetered.
"""

from spotrun.act.errors import Trouble, on_removal
from spotrun.act.writes import Writes
from spotrun.kube.errors import KubeError
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client
from spotrun.observe.kube_objects import PODS
from spotrun.state.actions import Withdraw
from spotrun.state.names import worker_name
from spotrun.state.snapshot import JobSnapshot


async def withdraw(
    client: Client, writes: Writes, job: JobSnapshot, action: Withdraw
) -> Trouble | None:
    """Delete a pod, if it is still the same one in the same version."""
    name = worker_name(job.name, job.uid, action.worker_id)
    try:
        version = await writes.do(
            "withdraw",
            job.namespace,
            lambda: client.delete(
                PODS, name, uid=action.uid, version=action.version, namespace=job.namespace
            ),
        )
    except KubeError as error:
        return on_removal(error)
    writes.reached(Key(job.namespace, job.name), PODS, name, version)
    return None
