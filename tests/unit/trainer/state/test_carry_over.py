from typing import Any

import pytest
import torch
from torch.optim import SGD, AdamW
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    SequentialLR,
)

from spotrun_trainer.state.carry_over import Given, apply_changes, given_options

Things = dict[str, Any]


def made(lr: float, schedule: str = "", **options: Any) -> Things:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = AdamW([weight], lr=lr, **options)
    return {"opt": optimizer, **({"sched": schedule_of(schedule, optimizer)} if schedule else {})}


def schedule_of(name: str, optimizer: AdamW) -> Any:
    match name:
        case "cosine":
            return CosineAnnealingLR(optimizer, T_max=100)
        case "exponential":
            return ExponentialLR(optimizer, gamma=0.97)
        case "lambda":
            return LambdaLR(optimizer, lambda step: 1 / (1 + step))
        case _:
            warm, then = LinearLR(optimizer, 0.1, total_iters=5), CosineAnnealingLR(optimizer, 100)
            return SequentialLR(optimizer, [warm, then], milestones=[5])


def stepped(things: Things, steps: int) -> float:
    """Return the learning rate after some more steps."""
    for _ in range(steps):
        things["opt"].step()
        if "sched" in things:
            things["sched"].step()
    return float(things["opt"].param_groups[0]["lr"])


def next_stage(before: Things, things: Things, given: Given | None = None) -> Things:
    """Return the things of the next stage, as they are once the checkpoint is loaded."""
    given, now = given or given_options(before), given_options(things)
    for name, thing in things.items():
        thing.load_state_dict(before[name].state_dict())
    apply_changes(things, given, now)
    return things


@pytest.mark.parametrize("schedule", ["", "cosine", "exponential", "lambda", "sequence"])
@pytest.mark.parametrize("factor", [1.0, 0.1])
def test_another_rate_takes_the_schedule_with_it_from_where_it_is(
    schedule: str, factor: float
) -> None:
    whole, before = made(0.1, schedule), made(0.1, schedule)
    stepped(whole, 8)
    stepped(before, 8)
    things = next_stage(before, made(0.1 * factor, schedule))
    for _ in range(3):
        assert stepped(things, 4) == pytest.approx(factor * stepped(whole, 4), rel=1e-9)


def test_what_a_script_says_no_differently_comes_from_the_checkpoint() -> None:
    before = made(0.1, weight_decay=0.5)
    given = given_options(before)
    before["opt"].param_groups[0]["weight_decay"] = 0.25  # as the loop has set it
    things = next_stage(before, made(0.1, weight_decay=0.5), given)
    assert things["opt"].param_groups[0]["weight_decay"] == 0.25


def test_other_options_are_those_of_the_new_stage() -> None:
    before = made(0.1, weight_decay=0.5, betas=(0.9, 0.99))
    things = next_stage(before, made(0.1, weight_decay=0.1, betas=(0.8, 0.99)))
    group = things["opt"].param_groups[0]
    assert (group["weight_decay"], group["betas"]) == (0.1, (0.8, 0.99))


def test_a_rate_of_zero_before_is_replaced() -> None:
    before = made(0.0)
    assert stepped(next_stage(before, made(0.1)), 0) == 0.1


def test_moments_are_kept() -> None:
    before = made(0.1)
    before["opt"].param_groups[0]["params"][0].grad = torch.ones(2)
    before["opt"].step()
    things = next_stage(before, made(0.5))
    state = next(iter(things["opt"].state.values()))
    assert state["exp_avg"].tolist() == pytest.approx([0.1, 0.1])


def test_options_are_plain_data() -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = SGD([weight], lr=0.1, momentum=0.9)
    assert given_options({"opt": optimizer, "other": 1})["opt"][0]["momentum"] == 0.9
