"""Uniform Progress (NSDI'24): on demand whenever the job falls behind a steady pace.

The pace is the straight line from nothing at the start to all of the work at the deadline.
"""

from spotrun.simulate.peers.ticks import Look, Mode
from spotrun.simulate.scenario import Job, Rules


def wish(look: Look, job: Job, rules: Rules) -> Mode:
    """Choose spot if available; on-demand to catch up, until the job is well ahead of the line."""
    if look.mode is Mode.ON_DEMAND:
        # A return to spot costs a changeover, and another one if that spot node is lost at once.
        ahead = _expected(look.elapsed + 2 * rules.changeover_seconds, job) < look.done
        return Mode.SPOT if look.spot_is_available and ahead else Mode.ON_DEMAND
    if look.spot_is_available:
        return Mode.SPOT
    return Mode.ON_DEMAND if look.done < _expected(look.elapsed, job) else Mode.IDLE


def _expected(elapsed: float, job: Job) -> float:
    return elapsed * job.work_seconds / job.deadline_seconds
