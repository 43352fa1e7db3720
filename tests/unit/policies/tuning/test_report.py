import json
import math

import pytest

from spotrun.api.tuning.status import TuningJobStatus
from spotrun.api.tuning.words import TrialPhase, TuningReason
from spotrun.policies.tuning.codec import write
from spotrun.policies.tuning.report import best_of, shown
from tests.support.tuning.searches import SearchBuilder, a_search

DONE = TrialPhase.SUCCEEDED


@pytest.mark.parametrize(
    ("search", "best"),
    [
        (a_search(), None),
        (a_search().with_trial(DONE, value=0.5).with_trial(DONE, value=0.4), 1),
        (a_search().with_trial(DONE, value=0.5).with_trial(value=0.1), 0),
        (a_search().with_trial(TrialPhase.STOPPED, value=0.5), 0),
        (a_search().with_trial(TrialPhase.FAILED, value=0.1), None),
        (a_search().with_trial(value=math.nan).with_trial(value=0.7), 1),
        (
            a_search(objective={"metric": "loss", "goal": "0.3"})
            .with_trial(DONE, value=0.5)
            .with_trial(value=0.2),
            1,
        ),
        (
            a_search(objective={"metric": "loss", "direction": "Maximize"})
            .with_trial(DONE, value=0.5)
            .with_trial(DONE, value=0.4),
            0,
        ),
    ],
)
def test_the_best_is_a_complete_trial_where_there_is_one(
    search: SearchBuilder, best: int | None
) -> None:
    found = best_of(search.snapshot().spec.objective, search.status.trials)
    assert (found.number if found is not None else None) == best


def test_the_front_has_no_trial_that_another_beats_in_value_and_cost() -> None:
    search = a_search(trials={"max": 9})
    for value, cost in ((0.5, "1"), (0.4, "2"), (0.6, "3"), (0.3, "2"), (0.9, "0.5")):
        search = search.with_trial(DONE, value=value, cost=cost)
    assert search.decide().status.pareto == (4, 0, 3)


def test_the_message_says_how_far_the_search_is() -> None:
    search = a_search(trials={"max": 3}).with_trial(DONE, value=0.5, cost="1")
    search = search.with_trial(TrialPhase.PRUNED, value=0.9, cost="0.25")
    assert search.decide().status.message == (
        "2 of 3 trials have ended, 0 run; 1 was pruned, which saved $0.75; the best is trial 0 "
        "with 0.5 (lr=0.01); $1.25 spent"
    )


def test_values_are_shown_in_a_line_of_bounded_length() -> None:
    assert shown({"lr": 0.000123456, "kind": "adam", "n": 3}) == "lr=0.00012346, kind=adam, n=3"
    assert len(shown({f"p{n}": "x" * 50 for n in range(9)})) < 210


def test_a_message_that_quotes_a_long_name_fits_into_the_status() -> None:
    template = {"spec": {"containers": [{"name": "t", "image": "x", "args": ["s.py"]}]}}
    container = template["spec"]["containers"][0]
    container["args"] = [f"$(params.{'x' * 4000})", "s.py"]
    spec = a_search().manifest["spec"]["template"]["spec"]
    workers = {**spec["workers"], "template": template}
    status = a_search(template={"spec": {**spec, "workers": workers}}).decide().status
    assert status.reason is TuningReason.NO_RESULT
    TuningJobStatus.model_validate_json(json.dumps(write(status).manifest()), by_name=False)
