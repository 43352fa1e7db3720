import json
from dataclasses import replace

import pytest

from spotrun.api.tuning.words import TrialPhase, TuningPhase, TuningReason
from spotrun.policies.tuning.codec import write
from spotrun.policies.tuning.following import courses
from spotrun.policies.tuning.state import TuningState
from spotrun.policies.tuning.write_rate import (
    GATHER_SECONDS,
    LATEST_SECONDS,
    gather_seconds,
    seconds_to_write,
    size_chars,
)
from spotrun.search.trial import Report
from tests.support.jobs.builders import NOW
from tests.support.tuning.searches import a_search, usd

OLD = a_search().with_trial(value=0.5, cost="1").status
[ONE] = OLD.trials
COMPLETE = replace(
    ONE,
    phase=TrialPhase.STOPPING,
    outcome=TrialPhase.SUCCEEDED,
    reason=TuningReason.TRIAL_SUCCEEDED,
)


@pytest.mark.parametrize(
    ("new", "wait"),
    [
        (OLD, float("inf")),
        (replace(OLD, trials=(replace(ONE, value=0.4, step=200),)), GATHER_SECONDS - 1),
        (replace(OLD, trials=(replace(ONE, usd=usd("2")),)), GATHER_SECONDS - 1),
        (replace(OLD, trials=(replace(ONE, phase=TrialPhase.STOPPING),)), 0),
        (replace(OLD, trials=(COMPLETE,)), GATHER_SECONDS - 1),
        (replace(OLD, trials=(COMPLETE, replace(ONE, number=1))), 0),
        (replace(OLD, trials=(replace(COMPLETE, phase=TrialPhase.SUCCEEDED),)), 0),
        (replace(OLD, trials=(ONE, replace(ONE, number=1))), 0),
        (replace(OLD, phase=TuningPhase.ENDING), 0),
    ],
)
def test_what_others_act_on_is_written_at_once(new: TuningState, wait: float) -> None:
    assert seconds_to_write(OLD, new, written_seconds=1) == wait


@pytest.mark.parametrize("num_reports", [0, 70])
@pytest.mark.parametrize("num_trials", [1, 30, 300, 1000])
def test_the_larger_a_status_the_more_rarely_it_is_written(
    num_trials: int, num_reports: int
) -> None:
    status = a_history(num_trials, num_reports)
    size = len(json.dumps(write(status).manifest(), separators=(",", ":")))
    assert size / 3 < size_chars(status) < 3 * size + 1000
    seconds = gather_seconds(status)
    assert GATHER_SECONDS <= seconds <= LATEST_SECONDS
    assert size / seconds < 50_000 or size > 1_000_000
    assert (seconds == GATHER_SECONDS) is (size_chars(status) <= 80_000)


def a_history(num_trials: int, num_reports: int) -> TuningState:
    """Return a search with so many trials, each with so many values."""
    course = tuple(Report(step * 10, 1 / (step + 3)) for step in range(num_reports))
    one = replace(ONE, course=course, begun_at=NOW, ended_at=NOW, checkpoint="ml/s-1/step-9.g1")
    return replace(OLD, trials=tuple(replace(one, number=number) for number in range(num_trials)))


def test_values_that_came_between_two_writes_are_not_forgotten() -> None:
    """A status of a thousand trials is written once a minute; a rung may lie between."""
    search = a_search().with_trial(value=0.5, step=10).with_job(0, loss=0.2, step=30)
    seen = courses(search.with_facts(unwritten={0: (Report(20, 0.3),)}).decide().status)
    assert [one.step for one in seen[0]] == [20, 30]
    again = search.with_facts(unwritten=seen).with_job(0, loss=0.2, step=30).decide()
    assert again.status.trials[0].course == seen[0], "each step counts once"
