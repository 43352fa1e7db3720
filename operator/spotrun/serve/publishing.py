"""From a decided job to what is published about it."""

from spotrun.api.status import TrainingJobStatus
from spotrun.decide.snapshot import JobSnapshot
from spotrun.observe.template import processes
from spotrun.serve.told import Peer, Published


def published(job: JobSnapshot, status: TrainingJobStatus) -> Published:
    """A job as it is stored, with its workers' pods."""
    return Published(
        namespace=job.namespace,
        name=job.name,
        uid=job.uid,
        status=status,
        peers={w.serial: Peer(w.pod.name, w.pod.uid, w.pod.address) for w in job.workers},
        processes=processes(job.spec),
        cost_labels=job.cost_labels,
    )
