"""Optimizers whose moments are in 16 bits between two steps."""

import pytest
import torch
from torch import nn

from spotrun_trainer import bf16_state
from spotrun_trainer.state.bf16_state import rounded


def test_numbers_are_rounded_to_a_neighbour_and_are_right_on_average() -> None:
    generator = torch.Generator().manual_seed(1)
    value = torch.tensor([1.001, -3.3e-12, 0.0, 2.0, -7.25e20])
    many = torch.stack([rounded(value, generator).double() for _ in range(4000)])
    assert all(len(set(column.tolist())) <= 2 for column in many.unbind(1))
    assert (many[:, 2:4] == value[2:4]).all()  # these are there in 16 bits, too
    assert many.mean(0).tolist() == pytest.approx(value.tolist(), rel=2e-4)
    assert not torch.isfinite(rounded(torch.tensor([torch.inf, torch.nan]), generator)).any()


def squares(*, is_narrow: bool, to_nearest: bool = False) -> tuple[float, torch.dtype]:
    """The mean of AdamW's second moments after gradients have become ten times smaller."""
    torch.manual_seed(1)
    weights = nn.Parameter(torch.zeros(1000))
    optimizer = torch.optim.AdamW([weights], lr=0.0)
    if is_narrow:
        bf16_state(optimizer)
    for step in range(600):
        weights.grad = torch.full_like(weights, 1.0 if step < 100 else 0.1)
        torch.manual_seed(step)  # as `Run` does
        optimizer.step()
        if to_nearest:
            state = optimizer.state[weights]
            state["exp_avg_sq"] = state["exp_avg_sq"].bfloat16().float()
    moments = optimizer.state[weights]["exp_avg_sq"]
    return moments.double().mean().item(), moments.dtype


def test_averages_go_on_moving_where_rounding_to_the_nearest_would_stop_them() -> None:
    expected, _ = squares(is_narrow=False)
    found, dtype = squares(is_narrow=True)
    assert dtype is torch.bfloat16
    assert found == pytest.approx(expected, rel=0.01)
    stopped, _ = squares(is_narrow=False, to_nearest=True)
    assert stopped > 1.3 * expected


def test_weights_of_16_bits_and_counters_stay_as_they_are() -> None:
    weights = [nn.Parameter(torch.ones(3, dtype=dtype)) for dtype in (torch.float32, torch.float64)]
    optimizer = bf16_state(torch.optim.AdamW(weights))
    for one in weights:
        one.grad = torch.ones_like(one)
    optimizer.step()
    kinds = [{name: value.dtype for name, value in optimizer.state[one].items()} for one in weights]
    assert kinds[0]["exp_avg"] is torch.bfloat16
    assert kinds[0]["step"] is torch.float32
    assert kinds[1]["exp_avg"] is torch.float64
