from spotrun.api.names import Phase
from spotrun.api.tuning.words import TuningReason
from spotrun.search import Suggestion
from tests.support.tuning.searches import a_job, a_search

LIMITED = a_search(trials={"max": 1}, budget={"maxCostUsd": "2"})


def test_a_beginning_tells_values_and_what_they_may_cost() -> None:
    [told] = LIMITED.decide(Suggestion({"lr": 0.25, "kind": "adam"})).news
    assert told.reason is TuningReason.TRIAL_BEGUN
    assert told.message == "trial 0 begins with lr=0.25, kind=adam; at most $2.00"


def test_an_end_tells_value_and_cost_the_best_and_the_end_of_all() -> None:
    done = a_job(Phase.SUCCEEDED, cost="0.5", settled=1)
    told = LIMITED.begun().with_job(0, done, loss=0.125).decide().news
    assert [one.reason for one in told] == [
        TuningReason.TRIAL_SUCCEEDED,
        TuningReason.NEW_BEST,
        TuningReason.ALL_TRIALS_DONE,
    ]
    assert told[0].message == "trial 0 ended as Succeeded with 0.125 at step 100, cost $0.50"
    assert told[1].message == "trial 0 is the best with loss 0.125: lr=0.5"


def test_a_failure_is_a_warning_with_its_reason() -> None:
    failed = a_job(Phase.FAILED, reason="ExitCode", message="exit code 3", settled=1)
    told = LIMITED.begun().with_job(0, failed).decide().news[0]
    assert told.is_warning
    assert told.message.endswith("ExitCode: exit code 3")


def test_nothing_is_told_twice() -> None:
    search = LIMITED.begun()
    assert search.decide().news == ()
