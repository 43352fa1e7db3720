"""Agents: those of an image that is too old are not understood, and the job says so."""

from spotrun.api.names import ConditionType, Reason
from spotrun.policies.policy import Policy
from spotrun.state.conditions import find, state
from spotrun.state.job_state import JobState
from spotrun.state.view import FINISHED, View


def check_agents(view: View, status: JobState) -> JobState:
    """Say whether every agent speaks a version that is served; silent until one does not."""
    old = [worker.pod.name for worker in view.alive if worker.speaks_old_wire]
    kind = ConditionType.AGENTS_SUPPORTED
    if status.phase in FINISHED or (not old and (find(status, kind) is None or not view.alive)):
        return status
    if old:
        message = f"{len(old)} workers, {old[0]} among them: use an image with a newer agent"
        return state(view, status, kind, Reason.AGENT_TOO_OLD, message, holds=False)
    message = "every agent speaks a version that is served"
    return state(view, status, kind, Reason.TRAINING, message, holds=True)


AGENT_VERSION = Policy(check_agents)
