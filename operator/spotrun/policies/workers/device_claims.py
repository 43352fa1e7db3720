"""Devices claimed through dynamic resource allocation (DRA) that could not be counted.

Who claims them then has to say how many processes drive them: to train with one on a worker of
eight GPUs would waste seven, and nobody would notice.
"""

from spotrun.state.job_state import JobState
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.view import View
from spotrun.state.world_members import training


def lacks_processes(view: View, status: JobState) -> bool:
    """Whether nobody knows how many processes a worker is to run; a world that trains goes on."""
    job = view.job
    is_known = job.spec.workers.processes is not None or job.requests.gpus or job.claimed
    return bool(job.claims_uncounted) and not is_known and not training(status)


def must_be_said(job: JobSnapshot) -> str:
    """Return why the devices were not counted, and what to do about it."""
    return (
        "how many devices resources.claims give to the container that trains is not known "
        f"({job.claims_uncounted}): set workers.processes, and suspend: true in the same change"
    )
