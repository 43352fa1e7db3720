from spotrun.api.cost import Cost, Waste
from spotrun.api.field_types.amounts import Amount
from spotrun.state.actions import Decision
from tests.support.jobs.builders import later
from tests.support.jobs.stored_state import cost_of
from tests.support.money.measured_steps import at_step, then


def cost(decision: Decision) -> Cost:
    return cost_of(decision.status)


def saved(
    seconds: float, at: float, before: Decision | None = None, world_number: int = 1
) -> Decision:
    """So much of the time of two who do a step in 10 s has gone into saving, as they say."""
    step = 100 + int(at - seconds) // 10
    if before is None:
        return at_step(step, checkpoint_seconds=seconds).decide(later(at))
    return then(before, step, at, world_number, checkpoint_seconds=seconds)


def checkpoints(decision: Decision) -> str | None:
    waste = cost(decision).waste
    return waste.checkpoint_usd if waste is not None else None


def test_the_time_in_which_training_stands_still_to_save_has_a_price() -> None:
    first = saved(18, 360)
    assert checkpoints(first) == "0.01"  # 18 s at $2/h
    assert checkpoints(saved(18, 720, first)) == "0.01"
    assert checkpoints(saved(54, 1080, first)) == "0.03"


def test_each_world_counts_the_time_of_its_saves_from_its_beginning() -> None:
    first = saved(36, 360)
    again = saved(18, 720, first, world_number=2)
    assert checkpoints(again) == "0.03"
    assert checkpoints(saved(18, 1080, again, world_number=2)) == "0.03"


def test_the_time_of_a_save_is_in_no_standstill() -> None:
    first = then(at_step(100, checkpoint_seconds=0.0).decide(), 136, 360, checkpoint_seconds=0.0)
    second = then(first, 136 + 27, 720, world_number=2, checkpoint_seconds=36.0)
    # Of the 90 s in which no step was done.
    assert cost(second).waste == Waste(standstill_usd=Amount("0.03"), checkpoint_usd=Amount("0.02"))


def test_what_the_world_before_has_said_of_its_saves_is_not_taken_for_this_ones() -> None:
    job = at_step(100).with_world("0,1", 2, store="x:1")
    assert checkpoints(at_step(100, job, 1, checkpoint_seconds=60.0).decide()) is None


def test_saving_has_cost_no_more_than_what_nothing_else_explains() -> None:
    first = at_step(0, checkpoint_seconds=0.0).decide()
    decision = then(first, 180, 1800, checkpoint_seconds=1e8)
    assert (checkpoints(decision), cost(decision).usd) == ("2", "3")  # a dollar was useful
    assert checkpoints(then(decision, 360, 3600, checkpoint_seconds=1e9)) == "2"
    assert checkpoints(then(decision, 180, 3600, checkpoint_seconds=1e9)) == "3"
