"""Greedy: spot whenever there is some, and else nothing, until only on-demand is in time."""

from spotrun.simulate.peers.ticks import Look, Mode
from spotrun.simulate.scenario import Job, Rules


def wish(look: Look, _job: Job, _rules: Rules) -> Mode:
    """Spot if there is some, else wait."""
    return Mode.SPOT if look.spot_is_there else Mode.IDLE
