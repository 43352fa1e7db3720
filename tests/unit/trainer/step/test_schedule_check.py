"""A ReduceLROnPlateau that nobody saves is refused, and no other."""

import gc
from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from spotrun_trainer.step.checks.schedules import check_tracked


class Wrapper:
    """A thing of one's own that steps a schedule, or several."""

    def __init__(self, held: Any) -> None:
        self.held = held


def optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)


def test_what_a_tracked_wrapper_holds_is_its_own_to_save() -> None:
    first = optimizer()
    check_tracked([first, Wrapper(ReduceLROnPlateau(first))])
    check_tracked([first, Wrapper([ReduceLROnPlateau(first)])])


def test_what_an_untracked_wrapper_holds_is_refused() -> None:
    first = optimizer()
    wrapper = Wrapper(ReduceLROnPlateau(first))
    with pytest.raises(ValueError, match="is not tracked itself"):
        check_tracked([first])
    del wrapper


def test_one_that_is_not_initialised_is_nobodys() -> None:
    empty = ReduceLROnPlateau.__new__(ReduceLROnPlateau)
    gc.collect()
    check_tracked([optimizer()])
    assert not vars(empty)
