import pytest

from spotrun.api.tuning.words import TrialPhase
from spotrun.policies.tuning.state import Counts, Trial


@pytest.mark.parametrize("phase", TrialPhase)
def test_a_trial_has_ended_once_it_costs_nothing_more(phase: TrialPhase) -> None:
    runs = {TrialPhase.PENDING, TrialPhase.RUNNING, TrialPhase.STOPPING}
    assert Trial(0, {}, phase).has_ended is (phase not in runs)


def test_every_way_to_end_counts() -> None:
    assert Counts(most=9, running=1, succeeded=2, pruned=1, stopped=1, failed=1).ended == 5
