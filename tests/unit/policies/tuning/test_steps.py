from spotrun.api.field_types.bounded import DnsName
from spotrun.api.names import Phase
from spotrun.api.spec.begin_from import BeginFrom
from spotrun.api.tuning.words import TrialPhase, TuningPhase, TuningReason
from spotrun.policies.tuning.steps import CreateTrial, DeleteTrial, Step, SuspendTrial
from tests.support.tuning.searches import SearchBuilder, a_job, a_population, a_search, usd


def taken(search: SearchBuilder) -> tuple[Step, ...]:
    return search.decide().steps


def test_a_trial_that_is_stopped_is_suspended_until_that_is_seen() -> None:
    search = a_search().with_trial(TrialPhase.STOPPING, outcome=TrialPhase.PRUNED, message="why")
    assert taken(search.with_job(0)) == (SuspendTrial(0, "uid-0", suspend=True, why="why"),)
    assert taken(search.with_job(0, is_suspended=True)) == ()


def test_a_search_that_is_suspended_takes_its_trials_along_and_brings_them_back() -> None:
    suspended = a_search(suspend=True).with_trial().with_job(0)
    [step] = taken(suspended)
    assert isinstance(step, SuspendTrial)
    assert step.suspend
    held = a_search().with_trial(reason=TuningReason.SUSPENDED_BY_USER)
    [step] = taken(held.with_job(0, a_job(Phase.SUSPENDED), is_suspended=True))
    assert isinstance(step, SuspendTrial)
    assert not step.suspend


def test_a_trial_that_its_user_suspended_stays_suspended() -> None:
    assert taken(a_search().with_trial().with_job(0, is_suspended=True)) == ()


def test_a_trial_that_has_ended_may_not_go_on() -> None:
    search = a_search(trials={"max": 1}).with_trial(TrialPhase.PRUNED, value=1)
    [step] = taken(search.with_job(0))
    assert isinstance(step, SuspendTrial)
    assert taken(search.with_job(0, is_suspended=True)) == ()
    assert taken(search.with_job(0, a_job(Phase.FAILED))) == ()


def test_only_the_best_is_kept_where_that_is_asked() -> None:
    search = a_search(trials={"max": 2, "keep": "Best"})
    for number, value in enumerate((0.5, 0.1)):
        search = search.with_trial(TrialPhase.SUCCEEDED, value=value)
        search = search.with_job(number, a_job(Phase.SUCCEEDED, settled=1))
    [step] = taken(search)
    assert (type(step), step.number) == (DeleteTrial, 0)


def test_a_search_that_is_deleted_does_nothing_more() -> None:
    search = a_search().with_trial(TrialPhase.PENDING)
    assert isinstance(taken(search)[0], CreateTrial)
    assert taken(search.with_facts(is_deleting=True)) == ()


def test_a_member_of_a_population_begins_from_its_parents_checkpoint() -> None:
    search = a_population(size=2, rounds=3)
    for number in range(4):
        place = f"ml/search-{number}/step-{100 * (1 + number // 2)}.g3"
        search = search.with_trial(TrialPhase.SUCCEEDED, value=number, checkpoint=place)
    search = search.with_trial(TrialPhase.PENDING, parent=2, values={"lr": 0.5})
    [step] = taken(search)
    parent = BeginFrom(job=DnsName("search-2"), checkpoint="step-200.g3")
    assert step == CreateTrial(4, {"lr": 0.5}, None, parent, until_step=300)
    [first] = taken(a_population().with_trial(TrialPhase.PENDING))
    assert isinstance(first, CreateTrial)
    assert (first.begin_from, first.until_step) == (None, 100)


def test_a_kept_trial_may_be_resumed_by_hand_once_the_search_is_over() -> None:
    search = a_search().with_trial(TrialPhase.PRUNED, value=1, cost="1").with_job(0)
    [step] = taken(search)
    assert isinstance(step, SuspendTrial)
    assert taken(search.with_status(phase=TuningPhase.SUCCEEDED)) == ()


def test_what_a_trial_costs_that_is_resumed_before_that_is_counted() -> None:
    search = a_search().with_trial(TrialPhase.PRUNED, value=1, cost="1")
    resumed = search.with_job(0, a_job(cost="1.5"))
    assert resumed.decide().status.cost.usd == usd("1.5")
    assert search.with_job(0, a_job(cost="0.5")).decide().status.cost.usd == usd("1")


def test_the_workers_of_a_complete_trial_end_by_themselves() -> None:
    search = a_search(trials={"max": 1}).with_trial(
        TrialPhase.STOPPING, outcome=TrialPhase.SUCCEEDED, value=1
    )
    assert taken(search.with_job(0, a_job(Phase.SUCCEEDED))) == ()
