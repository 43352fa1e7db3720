from dataclasses import replace

import pytest

from spotrun.api.tuning.words import TrialPhase, TuningPhase
from spotrun.policies.tuning.state import TuningState
from spotrun.policies.tuning.write_rate import GATHER_SECONDS, seconds_to_write
from tests.support.tuning.searches import a_search, usd

OLD = a_search().with_trial(value=0.5, cost="1").status
[ONE] = OLD.trials


@pytest.mark.parametrize(
    ("new", "wait"),
    [
        (OLD, float("inf")),
        (replace(OLD, trials=(replace(ONE, value=0.4, step=200),)), GATHER_SECONDS - 1),
        (replace(OLD, trials=(replace(ONE, usd=usd("2")),)), GATHER_SECONDS - 1),
        (replace(OLD, trials=(replace(ONE, phase=TrialPhase.STOPPING),)), 0),
        (replace(OLD, trials=(ONE, replace(ONE, number=1))), 0),
        (replace(OLD, phase=TuningPhase.ENDING), 0),
    ],
)
def test_what_others_act_on_is_written_at_once(new: TuningState, wait: float) -> None:
    assert seconds_to_write(OLD, new, written_seconds=1) == wait
