"""Agents: if an image's agents are too old for the operator, the job's status says so."""

from spotrun.api.names import ConditionType, Reason
from spotrun.policies.policy import Policy
from spotrun.state.conditions import find, state
from spotrun.state.job_state import JobState
from spotrun.state.view import FINISHED, View


def check_agents(view: View, status: JobState) -> JobState:
    """State whether every agent speaks a supported version; say nothing until one does not."""
    old = [worker.pod.name for worker in view.alive if worker.speaks_old_wire]
    kind = ConditionType.AGENTS_SUPPORTED
    if status.phase in FINISHED or (not old and (find(status, kind) is None or not view.alive)):
        return status
    if old:
        found = f"the agents of {len(old)} workers are too old, {old[0]} among them"
        message = f"{found}: use an image with a newer agent"
        return state(view, status, kind, Reason.AGENT_TOO_OLD, message, holds=False)
    message = "every agent speaks a version that the operator supports"
    return state(view, status, kind, Reason.TRAINING, message, holds=True)


AGENT_VERSION = Policy(check_agents)
