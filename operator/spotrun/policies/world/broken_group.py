"""A group that broke though no worker is lost: its members meet again, and continue in process.

One broken connection between two workers is enough for that. If a world breaks repeatedly soon
after it was formed, a link does not work: this is left to the agents, which report a failure after
30 s.
"""

from spotrun.api.status import Entry
from spotrun.state.job_state import JobState
from spotrun.state.replicas import holds_all
from spotrun.state.view import View
from spotrun.state.world_members import (
    all_outlive_a_break,
    breaks_in_a_row,
    gone,
    state_holders,
    world_members,
    world_number,
)
from spotrun.state.world_transitions import publish

MOST_BREAKS = 3
"""The most worlds in a row with the same members; each takes them about a second."""


def has_lost_touch(view: View, status: JobState) -> bool:
    """Whether all workers that train report that their group broke, and can meet again.

    A worker that reports this is alive. A worker that does not may be lost or have failed.
    """
    members, present = world_members(view, status), world_number(status)
    agents = [worker.agent for worker in members]
    if not members or gone(view, status) or breaks_in_a_row(view, status) >= MOST_BREAKS:
        return False
    if not all(one is not None and one.report.broken == present for one in agents):
        return False
    holders = state_holders(view, status)
    return all_outlive_a_break(members) and holds_all(holders, view.job.effective_workers)


def meet_anew(view: View, status: JobState) -> JobState:
    """Form another world of the same members, which continue from the last committed step."""
    why = "the connections between the workers broke, though no worker is lost"
    breaks = breaks_in_a_row(view, status) + 1
    members = world_members(view, status)
    return publish(view, status, members, Entry.ABORT, why, is_active=True, breaks=breaks)
