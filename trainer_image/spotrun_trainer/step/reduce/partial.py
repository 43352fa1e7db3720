"""The part of a step that this process has computed, except its gradients."""

from collections.abc import Sequence

import torch

from spotrun_trainer.step.totals import Sums


class Partial:
    """The complete microbatches, and the sums of losses, weights and buffers over them."""

    def __init__(self, microbatches: int, device: torch.device, sum_names: Sequence[str]) -> None:
        """Begin with none of the step's `microbatches`."""
        self.microbatches = microbatches
        self.numbers: list[int] = []
        self.sums = Sums(device, sum_names)

    def take(self, number: int, sums: Sums) -> None:
        """Add a complete microbatch."""
        self.numbers.append(number)
        self.sums.add_sums(sums)
