"""Devices that are claimed through dynamic resource allocation (DRA) and cannot be counted.

The user must then set how many processes use them: with one process on a worker with eight GPUs,
seven would be wasted without anybody noticing.
"""

from spotrun.state.job_state import JobState
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.view import View
from spotrun.state.world_members import training


def lacks_processes(view: View, status: JobState) -> bool:
    """Whether it is unknown how many processes a worker must run; a world that trains continues."""
    job = view.job
    is_known = job.spec.workers.processes is not None or job.requests.gpus or job.claimed
    return bool(job.claims_uncounted) and not is_known and not training(status)


def must_be_said(job: JobSnapshot) -> str:
    """Return why the devices were not counted, and what to do about it."""
    return (
        "the operator cannot tell how many devices resources.claims give to the training "
        f"container ({job.claims_uncounted}): set workers.processes, and suspend: true in the same "
        "change"
    )
