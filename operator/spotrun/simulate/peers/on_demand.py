"""The policy that uses on-demand capacity from the start to the end: without any risk."""

from spotrun.simulate.peers.ticks import Look, Mode
from spotrun.simulate.scenario import Job, Rules


def wish(_look: Look, _job: Job, _rules: Rules) -> Mode:
    """Always choose on-demand."""
    return Mode.ON_DEMAND
