"""What was paid and bought nothing has names, and what nobody measures has none."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spotrun.api.cost import Accumulators, Cost, Waste
from spotrun.api.field_types.amounts import Amount
from spotrun.policies.cost.goodput.waste import waste_shown
from spotrun.state.actions import Decision
from spotrun.state.stored.cost_codec import read_sums
from spotrun.wire import Ending, Progress
from tests.support.jobs.builders import an_end, later
from tests.support.jobs.stored_state import cost_of
from tests.support.money.measured_steps import at_step, then
from tests.support.money.priced_nodes import at_work


def cost(decision: Decision) -> Cost:
    return cost_of(decision.status)


def test_lost_work_is_steps_done_twice_and_standstills() -> None:
    first = then(at_step(100).decide(), 136, 360)
    lost = then(first, 100, 450, world_number=2)
    # 36 steps of 10 s, and 90 s in which nothing was done, at $2/h.
    assert cost(lost).waste == Waste(redone_usd=Amount("0.2"), standstill_usd=Amount("0.05"))
    assert cost(lost).lost_work_usd == "0.25"


def test_waiting_inside_of_steps_is_a_part_of_what_useful_steps_cost() -> None:
    shares: dict[str, Any] = {"compute": 0.7, "data": 0.1, "communicate": 0.2}
    first = at_step(0, **shares).decide()
    decision = then(then(first, 180, 1800, **shares), 360, 3600, **shares)
    # $2 for new steps.
    assert cost(decision).waste == Waste(peers_usd=Amount("0.4"), data_usd=Amount("0.2"))


def test_waiting_that_is_told_with_the_end_counts_as_well() -> None:
    shares: dict[str, Any] = {"compute": 0.7, "data": 0.1, "communicate": 0.2}
    before, end = at_step(0, **shares).decide(), later(1800)
    reported = Progress(1, 180, total=180, step_seconds=10.0, **shares)
    ended = {"ready": True, "arrived": 1, "progress": reported, **an_end(Ending.COMPLETED)}
    job = at_step(0).with_state(before.status)
    last = at_work(job, 0, 1, completed=True, ended_at=end, **ended).decide(end)
    # $1 for new steps.
    assert cost(last).waste == Waste(peers_usd=Amount("0.2"), data_usd=Amount("0.1"))


def test_steps_that_are_done_again_are_not_waited_in_twice() -> None:
    shares: dict[str, Any] = {"compute": 0.5, "data": 0.0, "communicate": 0.5}
    first = then(at_step(0, **shares).decide(), 180, 1800, **shares)
    again = then(then(first, 90, 1800, 2, **shares), 180, 2700, 2, **shares)
    assert cost(first).waste == Waste(peers_usd=Amount("0.5"))
    waste = cost(again).waste
    assert waste is not None
    assert (waste.peers_usd, waste.redone_usd) == ("0.5", "0.5")


def test_a_trainer_that_measures_nothing_names_no_waste() -> None:
    assert cost(then(at_step(100).decide(), 136, 360)).waste is None


def test_who_says_that_all_is_waiting_has_not_waited_for_more_than_was_paid() -> None:
    shares: dict[str, Any] = {"communicate": 1.0, "data": 1.0}
    decision = then(at_step(0, **shares).decide(), 10**9, 60, **shares)
    waste, paid = cost(decision).waste, cost(decision).usd
    assert waste is not None
    assert waste.peers_usd == waste.data_usd == paid


def test_what_was_a_standstill_stays_one_when_no_more_can_have_been_lost() -> None:
    calm = then(at_step(100).decide(), 136, 360)
    stood = then(calm, 137, 1000, world_number=2)
    back = then(stood, 1, 1100, world_number=3)
    gone_far = then(back, 10**9, 1200, world_number=3)
    again = then(gone_far, 1, 1300, world_number=4)
    wastes = [cost(one).waste or Waste() for one in (stood, back, again)]
    assert wastes[0].standstill_usd is not None
    standstills = [one.standstill_usd.decimal for one in wastes if one.standstill_usd]
    assert standstills == sorted(standstills)
    assert len(standstills) == 3
    assert cost(again).lost_work_usd == cost(again).usd


amounts = st.decimals(0, 1000, places=12).map(Amount.of)


@given(st.none() | amounts, st.none() | amounts)
def test_what_has_no_sum_has_no_name(lost: Amount | None, redone: Amount | None) -> None:
    shown = waste_shown(read_sums(Accumulators(lost_work_usd=lost, redone_usd=redone)))
    assert shown.peers_usd is None
    assert (shown.redone_usd is None) is (redone is None or not redone.decimal)
    assert shown.standstill_usd is None or shown.standstill_usd.decimal >= 0
