from dataclasses import replace

from spotrun.api.field_types.amounts import Percent
from spotrun.api.status_parts.spend_limit import SpendLimitStatus
from spotrun.policies.budget.spend.codec import read, write
from spotrun.policies.budget.spend.decide import decide
from spotrun.policies.budget.spend.facts import SpendState
from tests.support.jobs.builders import NOW, ago, later
from tests.support.money.shared_limits import a_limit, asking, usd

FULL = SpendState(
    observed_generation=3,
    message="50% of $10.00 is spent",
    period_start=ago(60),
    period_end=later(60),
    spent_usd=usd("5"),
    deleted_usd=usd("1.5"),
    reserved_usd=usd("2"),
    forecast_usd=usd("9"),
    used_percent=Percent("50%"),
    running=2,
    held=1,
    suspended=1,
    held_jobs=("a",),
    suspended_jobs=("b",),
    closing=("uid-1",),
    as_of=NOW,
)


def through_json(state: SpendState) -> SpendState:
    text = write(state).model_dump_json(by_alias=True)
    return read(SpendLimitStatus.model_validate_json(text, by_alias=True, by_name=False))


def test_what_is_written_is_read() -> None:
    assert through_json(FULL) == FULL
    assert through_json(replace(FULL, forecast_usd=None, closing=())).forecast_usd is None
    assert through_json(SpendState()) == SpendState()


def test_what_is_decided_can_be_stored() -> None:
    [state] = decide([a_limit("1")], [asking("a")], NOW).states.values()
    assert through_json(state) == state
