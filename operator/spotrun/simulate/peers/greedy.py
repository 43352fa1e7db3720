"""Greedy: spot if it is available, else nothing, until only on-demand can meet the deadline."""

from spotrun.simulate.peers.ticks import Look, Mode
from spotrun.simulate.scenario import Job, Rules


def wish(look: Look, _job: Job, _rules: Rules) -> Mode:
    """Choose spot if it is available, else wait."""
    return Mode.SPOT if look.spot_is_available else Mode.IDLE
