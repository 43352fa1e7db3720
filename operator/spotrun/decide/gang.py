"""Gangs: a job that cannot complete its own leaves the nodes to those that come first."""

from spotrun.api.status import TrainingJobStatus
from spotrun.decide.crew import training
from spotrun.decide.view import View


def must_wait(view: View, status: TrainingJobStatus) -> bool:
    """Whether the job may hold no nodes now; one that trains keeps what it has."""
    return not view.job.may_hold_nodes and not training(status)
