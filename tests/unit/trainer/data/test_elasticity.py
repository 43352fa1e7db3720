"""Worlds change at any step, and every sample is still used exactly once per epoch."""

from collections import Counter
from dataclasses import dataclass
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun_trainer.data.order.sharding import Block, Share, block_of
from spotrun_trainer.data.order.shuffle import Order, Sample


@dataclass
class Training:
    """A training of which only the data is simulated."""

    length: int
    microbatch: int
    microbatches: int
    worlds: list[tuple[int, int, bool]]
    """Sizes, the steps that each of them takes, and whether it dies in the middle of another."""
    by_speed: Random | None = None
    """Draws how the microbatches of each step are dealt; None: evenly."""

    @property
    def global_batch(self) -> int:
        return self.microbatch * self.microbatches

    def used(self) -> list[Sample]:
        """The samples of committed steps, in the order in which gradients are summed."""
        order = Order(self.length, seed=1, shuffle=True)
        used: list[Sample] = []
        for size, steps, dies in self.worlds:
            for _ in range(steps):
                used += self._step(order, len(used), size)
            if dies:  # these samples were loaded, and count for nothing
                self._step(order, len(used), size)
        return used

    def _step(self, order: Order, start: int, size: int) -> list[Sample]:
        dealt = self._dealt(size)
        blocks = [
            block_of(start, self.global_batch, self.microbatch, Share(size, rank, dealt=dealt))
            for rank in range(size)
        ]
        return [order.sample(number) for block in blocks for number in numbers(block)]

    def _dealt(self, size: int) -> list[int]:
        if self.by_speed is None:
            return []
        drawn = [self.by_speed.randrange(size) for _ in range(self.microbatches)]
        return [drawn.count(rank) for rank in range(size)]


def numbers(block: Block) -> range:
    return range(block.start, block.start + block.microbatches * block.microbatch)


TRAININGS = st.builds(
    Training,
    length=st.integers(1, 50),
    microbatch=st.integers(1, 7),
    microbatches=st.integers(1, 12),
    worlds=st.lists(
        st.tuples(st.integers(1, 16), st.integers(0, 5), st.booleans()), min_size=1, max_size=8
    ),
    by_speed=st.none() | st.randoms(use_true_random=False),
)


@settings(max_examples=300)
@given(TRAININGS)
def test_every_sample_is_used_once_per_epoch_in_one_order(training: Training) -> None:
    used = training.used()

    order = Order(training.length, seed=1, shuffle=True)
    assert [order.sample(number) for number in range(len(used))] == used
    times = Counter(used)
    finished = range(len(used) // training.length)
    assert all(times[Sample(e, i)] == 1 for e in finished for i in range(training.length))
    assert max(times.values(), default=1) == 1
