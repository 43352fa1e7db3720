"""A hang: all processes of a world run, but none of them has finished a step for a long time.

Slow work before a process's first step (loading, compiling) is no hang. After the first step every
change in the trainer's reports is a sign of life, so evaluation and checkpoints may take long.
"""

from statistics import median

from spotrun.api.status import Entry
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Agent
from spotrun.state.view import View, holds_back
from spotrun.state.world_members import gone, missing, world_members, world_number
from spotrun.wire import Progress, Report, step_of

AUTO_SECONDS = 600.0
"""The shortest limit with Auto: a slow evaluation or a full disk cache is no hang, and
torch.distributed waits 10 min for its own collectives."""
PLAIN_SCRIPT_SECONDS = 3600.0
"""The shortest limit with Auto for a script without `Run`, which shows only steps and batches.
Between epochs, in rollouts, or while it exports a model after its last step it is healthy but
silent, and a restart there costs more than the wait."""
AUTO_STEPS = 20.0
"""The limit with Auto: a step may take this many times its usual duration."""
_HEARD_SECONDS = 60.0
"""An agent that has sent nothing for this long gives no information about its process."""


def is_hung(view: View, status: JobState) -> bool:
    """Whether the world that trains has come to a standstill."""
    seconds = hang_wake_after_seconds(view, status)
    return seconds is not None and seconds <= 0


def hang_wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return how long the world may still make no step; 0 or less: too long. None: unknown."""
    stepping = _stepping(view, status)
    stands = _since_a_sign(stepping)
    return None if stands is None else _limit_seconds(view, stepping) - stands


def stands_seconds(view: View, status: JobState) -> float | None:
    """Return how many seconds ago the last sign of life was; None: unknown."""
    return _since_a_sign(_stepping(view, status))


def _stepping(view: View, status: JobState) -> list[Agent]:
    """Return the agents that train and have finished a step; none if one is absent or silent."""
    if holds_back(status) or gone(view, status) or missing(view, status):
        return []
    members = world_members(view, status)
    agents = [worker.agent for worker in members if worker.agent is not None]
    if len(agents) < len(members) or any(one.heard_seconds > _HEARD_SECONDS for one in agents):
        return []
    return [one for one in agents if _has_stepped(one.report.progress, status)]


def _since_a_sign(agents: list[Agent]) -> float | None:
    stands = (agent.progress_seconds for agent in agents)
    return min((seconds for seconds in stands if seconds is not None), default=None)


def _has_stepped(progress: Progress | None, status: JobState) -> bool:
    """Whether a process has finished a step in the world that trains."""
    world = status.world
    if progress is None or progress.world_number != world_number(status):
        return False
    if not world.is_active:  # the status does not keep how the world that still trains was entered
        return progress.step_seconds is not None
    named = (one for one in (world.restore, progress.restored) if one is not None)
    restored = max(map(step_of, named), default=0)
    return world.entry is not Entry.RESTART or progress.step > restored


def _limit_seconds(view: View, stepping: list[Agent]) -> float:
    given = view.job.spec.failures.hang_after.duration
    if given is not None:
        return given.seconds
    is_plain = any(_is_plain_script(agent.report) for agent in stepping)
    least = PLAIN_SCRIPT_SECONDS if is_plain else AUTO_SECONDS
    reports = (agent.report.progress for agent in stepping)
    steps = [one.step_seconds for one in reports if one is not None and one.step_seconds]
    return max(least, AUTO_STEPS * median(steps)) if steps else least


def _is_plain_script(report: Report) -> bool:
    """Whether the agent reports that no `Run` trains; older agents do not report this."""
    return report.saves_on_order is False and not report.in_process
