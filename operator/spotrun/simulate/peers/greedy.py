"""Greedy: spot whenever it is available, else nothing, until only on-demand is in time."""

from spotrun.simulate.peers.ticks import Look, Mode
from spotrun.simulate.scenario import Job, Rules


def wish(look: Look, _job: Job, _rules: Rules) -> Mode:
    """Choose spot if it is available, else wait."""
    return Mode.SPOT if look.spot_is_available else Mode.IDLE
