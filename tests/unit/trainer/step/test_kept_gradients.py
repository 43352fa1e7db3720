"""Gradients that outlive a world which breaks while they are summed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from typing_extensions import override

from spotrun_trainer.elastic.errors import PeerLostError
from spotrun_trainer.elastic.pending_collectives import Pending
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.step.gradients import BucketedGradients
from spotrun_trainer.step.reduce import reducer
from spotrun_trainer.step.reduce.reducer import Reducer
from tests.unit.trainer.step.test_gradients import backward, layers

LAYERS = 4  # a bucket each


class Lost:
    """A sum that never comes."""

    def wait(self) -> None:
        raise PeerLostError("gone")


class Breaking(Group):
    """A world of two with equal gradients, of which one is lost after so many sums."""

    def __init__(self, sums: int) -> None:
        super().__init__(0, 2)
        self.left = sums

    @override
    def all_reduce(self, tensor: Tensor) -> Pending:
        self.left -= 1
        if self.left < 0:
            tensor.fill_(-1)  # partial sums
            return Lost()
        tensor.mul_(2)
        return Group().all_reduce(tensor)


def kept(group: Group) -> tuple[BucketedGradients, nn.Sequential]:
    model = layers([4] * LAYERS)
    reducer = Reducer(group, keeps=True)
    return BucketedGradients(list(model.parameters()), reducer, bucket_bytes=16), model


def compute(gradients: BucketedGradients, model: nn.Sequential, microbatches: int) -> None:
    """Each microbatch has a gradient of one everywhere."""
    gradients._reducer.expect(gradients.buckets)
    for number in range(microbatches):
        if number == microbatches - 1:
            gradients.expect_last()
        backward(model)
        gradients.take(number)


def values(gradients: BucketedGradients) -> list[float]:
    """The value of each bucket's gradient, in the order of their sums."""
    return [bucket.views[0].flatten()[0].item() for bucket in gradients.buckets]


@pytest.mark.parametrize("room", [0, 40, 1000])
@given(
    sums=st.integers(0, LAYERS - 1), steps_before=st.integers(0, 2), microbatches=st.integers(1, 3)
)
def test_whenever_the_world_breaks_whole_microbatches_are_there(
    room: int, sums: int, steps_before: int, microbatches: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reducer, "APART_BYTES", max(room, 20))
        group = Breaking(steps_before * LAYERS + sums)
        gradients, model = kept(group)
        for _ in range(steps_before):
            compute(gradients, model, 1)
            gradients.reduce()
            gradients.drop()
        compute(gradients, model, microbatches)
        with pytest.raises(PeerLostError):
            gradients.reduce()
        assert gradients.keep()
        summed = [bucket.is_summed for bucket in gradients.buckets]
        assert summed == [number < sums for number in range(LAYERS)]
        own = float(microbatches)
        assert values(gradients) == [2 * own if each else own for each in summed]


def test_what_is_computed_later_is_added_where_it_is_missing() -> None:
    gradients, model = kept(Breaking(2))
    compute(gradients, model, 2)
    with pytest.raises(PeerLostError):
        gradients.reduce()
    assert gradients.keep()
    gradients._reducer.group = Breaking(LAYERS)
    compute(gradients, model, 3)
    gradients.reduce()
    # Of the first two there is the sum of all; and both of the fake world add the same.
    assert values(gradients) == [8, 8, 10, 10]


def test_of_a_sum_that_another_process_has_this_one_adds_nothing() -> None:
    gradients, model = kept(Breaking(LAYERS))
    compute(gradients, model, 2)
    gradients.buckets[0].is_elsewhere = True
    assert gradients.reduce() == 0
    assert values(gradients) == [0, 4, 4, 4]


def test_a_microbatch_that_is_not_whole_is_dropped() -> None:
    gradients, model = kept(Breaking(0))
    compute(gradients, model, 2)
    gradients.drop()
    gradients._reducer.expect(gradients.buckets)
    backward(model)
    gradients.take(0)
    backward(model)
    assert gradients.keep()
    assert values(gradients) == [1] * LAYERS


def test_a_large_parameter_that_is_on_its_way_takes_all_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reducer, "APART_BYTES", 0)
    gradients, model = kept(Breaking(2))
    compute(gradients, model, 2)
    with pytest.raises(PeerLostError):
        gradients.reduce()
    assert not gradients.keep()


def test_without_a_loss_sums_are_the_same_bits_as_in_place() -> None:
    sums = []
    for keeps in (False, True):
        torch.manual_seed(1)
        model = nn.Sequential(*(nn.Linear(3, 3) for _ in range(3)))
        reducer = Reducer(Breaking(100), keeps=keeps)
        gradients = BucketedGradients(list(model.parameters()), reducer, bucket_bytes=16)
        for _ in range(3):
            gradients.drop()
            reducer.expect(gradients.buckets)
            for number in range(2):
                if number == 1:
                    gradients.expect_last()
                model(torch.randn(4, 3)).square().sum().backward()
                gradients.take(number)
            gradients.reduce()
        sums.append([one.clone() for one in gradients.sums(some_missing=False) if one is not None])
    assert all(torch.equal(one, other) for one, other in zip(*sums, strict=True))
