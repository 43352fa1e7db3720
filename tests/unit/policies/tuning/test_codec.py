import json
import math
from dataclasses import replace

import pytest

from spotrun.api.tuning.status import MOST_COURSE_CHARS, TuningJobStatus
from spotrun.api.tuning.words import TrialPhase, TuningReason
from spotrun.policies.tuning.codec import _read_course, most_trials, read, read_value, write
from spotrun.policies.tuning.state import Best, Counts, TuningState
from spotrun.search.placeholders import text_of
from spotrun.search.trial import Report
from tests.support.jobs.builders import NOW
from tests.support.tuning.searches import a_search, usd


def stored_and_read(state: TuningState) -> TuningState:
    """Return the state as another operator finds it."""
    text = json.dumps(write(state).manifest())
    return read(TuningJobStatus.model_validate_json(text, by_alias=True, by_name=False))


FULL = (
    a_search(budget={"maxCostUsd": "10"}, trials={"max": 4})
    .with_trial(
        TrialPhase.PRUNED,
        value=0.25,
        step=300,
        cost="0.123456789012",
        cap="5",
        course={100: 0.5, 300: 0.25},
        reason=TuningReason.TRIAL_PRUNED,
        message="at step 300",
        checkpoint="ml/search-0/step-9",
        values={"lr": 1e-05, "layers": 3, "kind": "adam", "nesterov": True, "text": "007"},
        begun_at=NOW,
    )
    .with_trial(TrialPhase.STOPPING, value=-1.5, outcome=TrialPhase.STOPPED)
    .decide()
    .status
)


def test_what_is_stored_is_read_as_it_was() -> None:
    assert FULL.best is not None
    assert FULL.conditions
    assert stored_and_read(FULL) == FULL


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_stays_what_it_is(value: float) -> None:
    [trial] = stored_and_read(a_search().with_trial(value=value).status).trials
    assert trial.value == value or (math.isnan(value) and math.isnan(trial.value or 0))


@pytest.mark.parametrize("value", ["adam", "1.2.3", "007", 3, -2, 1e-05, 0.1, 12.0, True, False])
def test_values_are_read_as_they_were_given(value: str | float | bool) -> None:
    read_again = read_value(text_of(value))
    assert (type(read_again), read_again) == (type(value), value)


def test_a_long_course_keeps_its_first_and_its_newest_points() -> None:
    course = {step: 1 / step for step in range(1, 2000)}
    search = a_search().with_trial(value=0.1, step=2000, course=course)
    text = write(search.status).history[0].course  # type: ignore[index]
    assert text is not None
    assert len(text) <= MOST_COURSE_CHARS
    kept = stored_and_read(search.status).trials[0].course
    assert (kept[0].step, kept[-1]) == (1, Report(1999, 0.000500250))


def test_a_status_that_was_never_written_is_the_first_state() -> None:
    empty = TuningState(counts=Counts(most=0))
    assert read(TuningJobStatus()) == empty
    best = Best(0, "search-0", 0.5, None, {"lr": 0.1}, None)
    assert stored_and_read(replace(empty, best=best)).best == best
    assert stored_and_read(empty).cost.usd == usd("0")


def test_a_rung_keeps_its_value_however_long_a_course_becomes() -> None:
    """A trial that is stored after each report; its values fall with the steps."""
    state = a_search().with_trial(value=0.1, step=1).status
    for step in range(10, 20_000, 10):
        [trial] = state.trials
        longer = replace(trial, step=step, course=(*trial.course, Report(step, 1 / step)))
        [kept] = write(replace(state, trials=(longer,))).history or ()
        state = replace(state, trials=(replace(longer, course=_read_course(kept.course)),))
    steps = [point.step for point in state.trials[0].course]
    for rung in (100, 300, 900, 2700, 8100):
        assert min(step for step in steps if step >= rung) < 1.3 * rung


def test_a_thousand_trials_fit_into_an_object() -> None:
    course = tuple(Report(step * 10, 1 / (step + 3)) for step in range(70))
    [one] = FULL.trials[:1]
    one = replace(one, course=course, message="m" * 1024, checkpoint="ml/search-999/step-123456.g1")
    values = {f"parameter_{number}": 0.123456789012345678 for number in range(9)}
    many = tuple(replace(one, number=number, values=values, ended_at=NOW) for number in range(1000))
    written = write(replace(FULL, trials=many)).manifest()
    fields: list[dict[str, object]] = [
        {f"f:{name}": {} for name in trial} for trial in written["history"]
    ]
    names: dict[str, object] = {f"f:{name}": {} for name in values}
    managed = [
        {f'k:{{"number":{number}}}': {".": {}, **one, "f:parameters": {".": {}, **names}}}
        for number, one in enumerate(fields)
    ]
    assert len(json.dumps([written, managed], separators=(",", ":"))) < 1_450_000


def test_as_many_trials_begin_as_the_status_has_room_for() -> None:
    many = [
        {"name": f"p{number}", "categorical": {"choices": ["x" * 128, "y"]}} for number in range(20)
    ]
    small, large = a_search().snapshot().spec, a_search(parameters=many).snapshot().spec
    assert most_trials(small) > 1000
    assert 300 < most_trials(large) < 400


def test_a_choice_beyond_all_floats_stays_text() -> None:
    assert read_value("1e999") == "1e999"
