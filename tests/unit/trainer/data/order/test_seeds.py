"""Random numbers that follow from the sample."""

import random
from itertools import product

import numpy as np
import pytest
import torch

from spotrun_trainer.data.order.seeds import generators_kept, sample_seed, seed_generators


def draw() -> tuple[float, float, float]:
    return random.random(), torch.rand(1).item(), np.random.rand()  # noqa: S311


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        ((0, 0, 0), 5667805136815889662),
        ((1, 0, 0), 2169566469877436094),
        ((0, 1, 0), 6564641746054941935),
        ((0, 0, 1), 3401501013380627033),
        ((-1, 2**40, 2**50), 3072325961084777250),
    ],
)
def test_the_seed_of_a_sample_is_the_same_for_ever(
    sample: tuple[int, int, int], expected: int
) -> None:
    # A training that goes on augments as it would have.
    assert sample_seed(*sample) == expected


def test_seeds_fit_the_generators_and_do_not_repeat() -> None:
    seeds = {sample_seed(*sample) for sample in product(range(9), range(9), range(99))}

    assert len(seeds) == 9 * 9 * 99
    assert 0 <= min(seeds) <= max(seeds) < 2**63


def test_a_seed_sets_all_generators() -> None:
    seed_generators(7)
    first = draw()
    draw()
    seed_generators(7)

    assert draw() == first
    assert torch.initial_seed() == 7


def test_kept_generators_go_on_even_after_an_exception() -> None:
    seed_generators(7)
    expected = [draw(), draw()]
    seed_generators(7)
    first = draw()
    with pytest.raises(RuntimeError), generators_kept():
        seed_generators(8 / 3)  # type: ignore[arg-type]

    assert [first, draw()] == expected
