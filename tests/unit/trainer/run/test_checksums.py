"""What processes compare of their state: what it costs, and that nothing of it is left out."""

import time
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from spotrun_trainer.process import checksum
from spotrun_trainer.process.checksum import CHECKSUM_BITS
from spotrun_trainer.process.rng import key_of


def of(tensors: list[Tensor]) -> int:
    return checksum.checksum_of(tensors)


def seconds_for(count: int) -> float:
    tensors, took = [torch.ones(2) for _ in range(count)], []
    for _ in range(3):
        began = time.process_time()
        of(tensors)
        took.append(time.process_time() - began)
    return min(took)


def test_four_times_as_many_tensors_cost_about_four_times_as_much() -> None:
    assert seconds_for(6000) < 8 * seconds_for(1500)


def test_a_large_tensor_is_summed_in_pieces_as_they_are_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers, whole = [], Tensor.sum

    def noted(tensor: Tensor, **how: Any) -> Tensor:
        numbers.append(tensor.numel())
        return whole(tensor, **how)

    monkeypatch.setattr(Tensor, "sum", noted)
    of([torch.ones(2**24 + 1, dtype=torch.uint8)])
    assert numbers == [2**24, 1, 2]


@pytest.mark.parametrize("piece", [1, 3, 8, 2**24])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.bool])
def test_pieces_make_the_sum_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, piece: int
) -> None:
    monkeypatch.setattr(checksum, "_SUMMED_AT_ONCE", piece)
    monkeypatch.setattr(checksum, "_SMALL", -1)
    whole_numbers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    tensors = [
        torch.arange(9.0).to(dtype),
        torch.zeros(0, dtype=dtype),
        torch.ones((), dtype=dtype),
    ]
    sums = [sum(one.flatten().view(whole_numbers[one.element_size()]).tolist()) for one in tensors]
    wrapped = [(one + 2**63) % 2**64 - 2**63 for one in sums]
    assert of(tensors) == key_of(*wrapped) >> (64 - CHECKSUM_BITS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.bool])
def test_each_bit_of_small_tensors_counts_and_so_does_their_order(dtype: torch.dtype) -> None:
    tensors = [torch.zeros(5, 3).to(dtype), torch.zeros(()).to(dtype), torch.ones(2000).to(dtype)]
    seen = {of(tensors), of(tensors[::-1]), of(tensors[:2])}
    assert len(seen) == 3
    for tensor in tensors:
        bits = tensor.view(-1).view(torch.uint8)
        for place in (0, len(bits) // 2, len(bits) - 1):
            bits[place] ^= 1
            seen.add(of(tensors))
            bits[place] ^= 1
    assert len(seen) > 3 + 5
    assert of(tensors) in seen


@pytest.mark.parametrize("place", [0, 1, 2, 3, 1023, 1024, 1025])
def test_the_sign_of_a_small_tensor_counts_at_each_place(place: int) -> None:
    weights = torch.ones(1500, dtype=torch.float64)
    before = of([weights])
    weights[place] = -1
    assert of([weights]) != before


def test_what_is_large_and_what_is_small_is_told_by_numbers_alone() -> None:
    small, large = torch.ones(2**14), torch.ones(2**14 + 1)
    assert len({of([small]), of([large]), of([small, large]), of([large, small, small])}) == 4


def test_weights_that_are_parameters_or_not_contiguous_count_alike() -> None:
    weights = torch.arange(12.0).view(3, 4)
    turned = nn.Parameter(weights.t().contiguous().t())
    assert not turned.is_contiguous()
    assert of([weights]) == of([turned])
