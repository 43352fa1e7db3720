"""On demand from the first minute to the last: the price of not having to think."""

from spotrun.simulate.peers.ticks import Look, Mode
from spotrun.simulate.scenario import Job, Rules


def wish(_look: Look, _job: Job, _rules: Rules) -> Mode:
    """Always the same."""
    return Mode.ON_DEMAND
