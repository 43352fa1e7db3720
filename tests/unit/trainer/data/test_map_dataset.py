"""Map-style datasets: what their state is, how they are asked, and what is wrong with some."""

import random
from typing import Any

import pytest
import torch
from torch.utils.data import Subset, TensorDataset
from typing_extensions import override

from spotrun_trainer.data.load import Json
from spotrun_trainer.data.order.sharding import Block
from spotrun_trainer.data.source import Source, open_source
from tests.unit.trainer.data.datasets import Augmented, Numbers


def opened(dataset: Any, *, seed: int = 1, shuffle: bool = False, **more: Any) -> Source:
    more = {"microbatch": 2, "num_workers": 0, **more}
    return open_source(dataset, seed=seed, shuffle=shuffle, **more)


def take(source: Source, start: int = 0, microbatches: int = 1, microbatch: int = 4) -> list[Any]:
    return list(source.microbatches(Block(start, microbatches, microbatch)))


class Participants(Augmented):
    """Fetches several samples at once, and notes which."""

    def __init__(self, length: int, lost: int = 0) -> None:
        super().__init__(length)
        self.asked: list[list[int]] = []
        self._lost = lost

    def __getitems__(self, indices: list[int]) -> list[Any]:
        self.asked.append(indices)
        return [self[index] for index in indices][self._lost :]


def test_a_training_of_the_same_data_is_restored_by_the_number_of_samples() -> None:
    saver = opened(Numbers(10), shuffle=True)
    take(saver, 0, 3)
    assert saver.state() == {"length": 10, "seed": 1, "shuffle": True}

    restored = opened(Numbers(10), shuffle=True)
    restored.restore(saver.state(), start=12)

    assert torch.equal(take(opened(Numbers(10), shuffle=True), 12)[0], take(restored, 12)[0])


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"length": 9, "seed": 1, "shuffle": False}, "length 9 then, length 10 now"),
        ({"length": 10, "seed": 2, "shuffle": True}, "seed 2, shuffle True then"),
        ({"position": 2, "epoch": 0, "state": None}, "length None"),
    ],
)
def test_a_training_of_other_data_is_refused(state: dict[str, Json], said: str) -> None:
    with pytest.raises(ValueError, match=f"the checkpoint was made with other data: .*{said}"):
        opened(Numbers(10)).restore(state, start=12)


def test_an_empty_dataset_is_refused() -> None:
    with pytest.raises(ValueError, match="the dataset is empty"):
        opened(Numbers(0))


def test_a_dataset_that_changes_its_length_is_refused() -> None:
    dataset = Numbers(10)
    source = opened(dataset)
    take(source)
    dataset.length = 11

    with pytest.raises(ValueError, match="had 10 samples when the training began, but has 11 now"):
        take(source)


def test_a_dataset_that_fetches_several_at_once_is_asked_so() -> None:
    dataset = Participants(10)
    take(opened(dataset), microbatches=3)

    assert dataset.asked == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]]


def test_samples_fetched_at_once_are_the_same_whatever_was_fetched_before() -> None:
    _, second = take(opened(Participants(10)), microbatches=2)
    (alone,) = take(opened(Participants(10)), start=4)

    torch.testing.assert_close(second, alone, rtol=0, atol=0)


def test_a_subset_fetches_at_once_what_its_dataset_does() -> None:
    dataset = Participants(10)
    take(opened(Subset(dataset, [9, 8, 7, 6])))
    assert dataset.asked == [[9, 8, 7, 6]]

    # Otherwise samples have random numbers of their own, as without the subset.
    (alone,) = take(opened(Augmented(4)))
    (subset,) = take(opened(Subset(Augmented(10), [0, 1, 2, 3])))
    torch.testing.assert_close(alone, subset, rtol=0, atol=0)


def test_too_few_samples_at_once_are_refused() -> None:
    with pytest.raises(ValueError, match=r"__getitems__\(\[0, 1, 2, 3\]\) gave 3 samples"):
        take(opened(Participants(10, lost=1)))


def test_samples_that_do_not_stack_are_named() -> None:
    class Ragged(Numbers):
        @override
        def __getitem__(self, index: int) -> torch.Tensor:
            return torch.zeros(index)

    with pytest.raises(RuntimeError, match="stack") as raised:
        take(opened(Ragged(10)), start=2)

    (note,) = raised.value.__notes__
    assert "Collating samples [2, 3, 4, 5] of the dataset raised this" in note
    assert "collate=" in note


def test_batches_are_what_the_collate_function_makes() -> None:
    assert take(opened(Numbers(10), collate=lambda values: sum(map(int, values)))) == [6]


def test_a_collate_function_may_draw_random_numbers_as_well() -> None:
    data = TensorDataset(torch.arange(10))
    draws = [take(opened(data, collate=lambda _: random.random())) for _ in range(2)]  # noqa: S311

    assert draws[0] == draws[1]


def test_data_in_memory_is_looked_up_without_seeding() -> None:
    before = torch.get_rng_state()
    data = Subset(TensorDataset(torch.arange(10)), range(10))

    ((batch,),) = take(opened(data))

    assert batch.tolist() == [0, 1, 2, 3]
    assert torch.equal(before, torch.get_rng_state())
