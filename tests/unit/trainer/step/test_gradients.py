"""Gradients in flat buckets: what is sent, in which order, and when."""

import os
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

from spotrun_trainer.elastic.errors import PeerLostError
from spotrun_trainer.elastic.pending_collectives import Pending
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.rank_info import RankInfo, find_rank_info
from spotrun_trainer.loop.state_sync import checksum
from spotrun_trainer.state.tracked import Tracked
from spotrun_trainer.step.deterministic_reduce import TreeGradients
from spotrun_trainer.step.gradients import BucketedGradients, Gradients, LocalGradients
from spotrun_trainer.step.reduce.bucket import split
from spotrun_trainer.step.reduce.reducer import Reducer
from tests.support.processes.trainer_world import run_world


class WrittenDown(Group):
    """A world of two whose other process has the same gradients."""

    def __init__(self) -> None:
        super().__init__(0, 2)
        self.sizes: list[int] = []

    @override
    def all_reduce(self, tensor: Tensor) -> Pending:
        self.sizes.append(tensor.numel())
        tensor.mul_(2)
        return Group().all_reduce(tensor)


def layers(widths: list[int]) -> nn.Sequential:
    return nn.Sequential(*(nn.Linear(1, width, bias=False) for width in widths))


def backward(model: nn.Sequential) -> None:
    sum(layer(torch.ones(1)).sum() for layer in model).backward()


def bucketed(model: nn.Sequential, group: Group) -> BucketedGradients:
    """Of buckets with four numbers each."""
    return BucketedGradients(list(model.parameters()), Reducer(group), bucket_bytes=16)


def expect_last(gradients: BucketedGradients) -> None:
    """As a phase does that updates their optimizer."""
    gradients._reducer.expect(gradients.buckets)
    gradients.expect_last()


def one_step(gradients: BucketedGradients, model: nn.Sequential, group: WrittenDown) -> int:
    """How many buckets were sent during the backward."""
    expect_last(gradients)
    backward(model)
    sent = len(group.sizes)
    gradients.take(0)
    gradients.reduce()
    return sent


def test_buckets_are_sent_during_the_last_backward_from_the_second_step_on() -> None:
    model, group = layers([4, 3, 2, 1]), WrittenDown()
    gradients = bucketed(model, group)
    assert one_step(gradients, model, group) == 0
    # Of 1+2, of 3 and of 4 numbers, and a mark for each parameter.
    assert group.sizes == [5, 4, 5]
    gradients.drop()
    group.sizes.clear()
    assert one_step(gradients, model, group) == 3
    assert group.sizes == [5, 4, 5]


def test_what_is_sent_is_the_sum_of_all_microbatches() -> None:
    model, group = layers([2, 2, 2]), WrittenDown()
    gradients = bucketed(model, group)
    for _ in range(2):
        gradients.drop()
        for microbatch in range(3):
            if microbatch == 2:
                expect_last(gradients)
            backward(model)
            gradients.take(microbatch)
        assert gradients.reduce() == 0
        sums = gradients.sums(some_missing=False)
        assert [one.flatten().tolist() for one in sums if one is not None] == [[6.0, 6.0]] * 3


def test_after_two_backwards_in_a_microbatch_nothing_is_sent_early() -> None:
    model, group = layers([4, 4]), WrittenDown()
    gradients = bucketed(model, group)
    for _ in range(2):
        gradients.drop()
        group.sizes.clear()
        expect_last(gradients)
        backward(model)
        backward(model)
        assert group.sizes == []
        gradients.take(0)
        gradients.reduce()
        sums = gradients.sums(some_missing=False)
        assert sums[0] is not None
        assert sums[0].flatten().tolist() == [4.0] * 4


def test_a_step_without_a_microbatch_does_not_show_how_many_backwards_there_are() -> None:
    model, group = layers([4, 4]), WrittenDown()
    gradients = bucketed(model, group)
    assert gradients.reduce() == 2
    gradients.drop()
    group.sizes.clear()
    assert one_step(gradients, model, group) == 0


def test_a_bucket_waits_for_those_before_it() -> None:
    model, group = layers([4, 4, 4]), WrittenDown()
    gradients = bucketed(model, group)
    one_step(gradients, model, group)
    gradients.drop()
    group.sizes.clear()
    expect_last(gradients)
    (model[0](torch.ones(1)).sum() + model[1](torch.ones(1)).sum()).backward()
    assert group.sizes == []  # the last layer's is the first, and has not come
    gradients.take(0)
    assert gradients.reduce() == 1
    assert group.sizes == [5, 5, 5]
    assert [one is None for one in gradients.sums(some_missing=True)] == [True, False, False]


def treed(group: Group) -> TreeGradients:
    return TreeGradients([], group, leaves=2)


@pytest.mark.parametrize("kind", [lambda group: BucketedGradients([], Reducer(group)), treed])
def test_an_optimizer_of_frozen_parameters_has_no_sums(
    kind: Callable[[Group], Gradients],
) -> None:
    gradients = kind(WrittenDown())
    for microbatch in range(2):
        gradients.take(microbatch)
    assert gradients.reduce() == 0
    assert gradients.sums(some_missing=True) == []  # another optimizer's, on some process


def test_buckets_hold_one_kind_of_numbers() -> None:
    parameters = [
        nn.Parameter(torch.zeros(2, dtype=dtype))
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float64)
    ]
    single, double = split(parameters, 1000)
    assert [single, double] == [[parameters[0], parameters[2]], [parameters[1], parameters[3]]]


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0, 2), (0, 0), (3, 0)])
def test_a_part_without_elements_is_in_a_bucket_as_well(sizes: Sequence[int]) -> None:
    parameters = [nn.Parameter(torch.zeros(size)) for size in sizes]
    parts = split(parameters, 12)
    assert [id(one) for part in parts for one in part] == [id(one) for one in parameters]


def test_alone_gradients_stay_where_autograd_puts_them() -> None:
    model = layers([2])
    gradients = LocalGradients(list(model.parameters()))
    backward(model)
    gradients.take(0)
    assert gradients.sums(some_missing=False)[0] is model[0].weight.grad
    gradients.drop()
    assert model[0].weight.grad is None


@pytest.mark.parametrize(
    "kind", [LocalGradients, lambda parameters: BucketedGradients(parameters, Reducer(Group()))]
)
def test_sparse_gradients_are_refused_also_by_who_is_alone(
    kind: Callable[[Sequence[nn.Parameter]], Gradients],
) -> None:
    model = nn.Embedding(4, 2, sparse=True)
    gradients = kind(list(model.parameters()))
    model(torch.tensor([1])).sum().backward()
    with pytest.raises(ValueError, match="sparse=False"):
        gradients.take(0)


def test_a_flipped_bit_changes_the_checksum() -> None:
    model = nn.Linear(300, 3)
    tracked = Tracked()
    tracked.add("model", model)
    before = checksum(tracked)
    assert before == checksum(tracked)
    bits = model.weight.data.view(torch.int32)
    bits[1, 7] ^= 1
    assert before != checksum(tracked)


def exchange() -> tuple[str, list[list[float]], list[float]]:
    rank_info = find_rank_info(os.environ, None)
    device = torch.device("cpu")
    group = Group.form(rank_info, device=device)
    text = group.text_from(1, f"from {rank_info.rank}", device=device)
    gathered = group.all_gather(torch.tensor([float(rank_info.rank)]))
    given = torch.arange(3.0) + 10 * rank_info.rank
    received = torch.zeros(3)
    group.all_to_all(received, given, [1, 1, 1], [1, 1, 1]).wait()
    return text, gathered.tolist(), received.tolist()


def test_processes_exchange_texts_and_tensors() -> None:
    ended = [one.value for one in run_world(3, exchange)]
    for rank, (text, gathered, received) in enumerate(ended):
        assert text == "from 1"
        assert gathered == [[0.0], [1.0], [2.0]]
        assert received == [rank, rank + 10.0, rank + 20.0]


def test_who_does_not_arrive_is_waited_for_within_bounds() -> None:
    rank_info = RankInfo(size=2, store=("127.0.0.1", 0), hosts_store=True)
    with pytest.raises(PeerLostError, match="only 1 of 2 processes arrived within 1 s"):
        Group.form(rank_info, device=torch.device("cpu"), timeout_seconds=0.6)


def test_waiting_for_others_ends_when_there_is_another_world() -> None:
    def look() -> None:
        raise PeerLostError("there is a newer world than 3")

    rank_info = RankInfo(size=2, store=("127.0.0.1", 0), hosts_store=True)
    with pytest.raises(PeerLostError, match="newer world"):
        Group.form(rank_info, device=torch.device("cpu"), look=look)
