"""The policy that takes on-demand capacity from the first minute to the last: without any risk."""

from spotrun.simulate.peers.ticks import Look, Mode
from spotrun.simulate.scenario import Job, Rules


def wish(_look: Look, _job: Job, _rules: Rules) -> Mode:
    """Choose on-demand always."""
    return Mode.ON_DEMAND
