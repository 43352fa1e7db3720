"""What is summed over a step beside gradients: losses, weights, and changes of buffers."""

import torch
from torch import Tensor

from spotrun_trainer.buffers import Buffers, Changes


class Sums:
    """Some microbatches' loss and weight; stays on the device, so that nothing waits for it."""

    def __init__(self, device: torch.device) -> None:
        self._loss = torch.zeros((), dtype=torch.float64, device=device)
        self._weight: float | Tensor = 0.0
        self._changes: Changes = {}

    def add(self, loss: Tensor, weight: float | Tensor) -> None:
        """Count a loss that is a sum over so much weight."""
        self._loss += loss.detach()
        self._weight = self._weight + (
            weight.detach().double() if isinstance(weight, Tensor) else float(weight)
        )

    def add_changes(self, changes: Changes) -> None:
        """Count what a microbatch has changed in buffers."""
        for number, change in changes.items():
            before = self._changes.get(number)
            self._changes[number] = change if before is None else before + change

    @property
    def changed(self) -> set[int]:
        """The buffers that changed."""
        return set(self._changes)

    def vector(self, buffers: Buffers) -> Tensor:
        """Loss, weight, and the changes of the buffers that were agreed on."""
        weight = torch.as_tensor(self._weight, dtype=torch.float64, device=self._loss.device)
        return torch.cat(
            [torch.stack([self._loss, weight.reshape(())]), *buffers.flatten(self._changes)]
        )
