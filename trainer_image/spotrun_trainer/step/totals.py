"""The sums of a step other than gradients: loss, weight, the script's numbers, and buffers."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from spotrun_trainer.process.device import put
from spotrun_trainer.step.buffers import Buffers, Changes


def check_names(names: Sequence[str]) -> None:
    """Raise an error if names of the script's own sums are not distinct."""
    if isinstance(names, str):
        raise TypeError(f'sums="{names}" is one text: give a list of names, sums=["{names}"]')
    if twice := sorted({name for name in names if list(names).count(name) > 1}):
        raise ValueError(f"sums= names {', '.join(twice)} more than once: name each sum once")


class Sums:
    """Sums over some microbatches, kept on the device, so that nothing waits for them."""

    def __init__(self, device: torch.device, names: Sequence[str] = ()) -> None:
        """Start at zero; `names` are of the script's own numbers."""
        self._loss = torch.zeros((), dtype=torch.float64, device=device)
        self._weight: float | Tensor = 0.0
        self._numbers = dict.fromkeys(names, torch.zeros_like(self._loss))
        self._changes: Changes = {}

    def add(self, loss: Tensor, weight: float | Tensor) -> None:
        """Add a loss that is a sum over so much weight."""
        self._loss += loss.detach()
        self._weight = self._weight + (
            weight.detach().double() if isinstance(weight, Tensor) else float(weight)
        )

    def add_numbers(self, values: Mapping[str, float | Tensor]) -> None:
        """Add numbers of the script's own."""
        for name, value in values.items():
            if name not in self._numbers:
                raise ValueError(
                    f"run.sum got {name}, which run.steps does not know: give it "
                    f'run.steps(..., sums=["{name}"]), so that all processes add up the same'
                )
            self._numbers[name] = self._numbers[name] + self._single(value)

    def add_changes(self, changes: Changes) -> None:
        """Add a microbatch's changes of buffers."""
        for number, change in changes.items():
            before = self._changes.get(number)
            self._changes[number] = change if before is None else before + change

    def add_sums(self, other: "Sums") -> None:
        """Add the sums over other microbatches."""
        self.add(other._loss, other._weight)  # noqa: SLF001 - of its own class
        self.add_numbers(other._numbers)  # noqa: SLF001
        self.add_changes(other._changes)  # noqa: SLF001

    @property
    def weight(self) -> float | Tensor:
        """The weight that losses were added with."""
        return self._weight

    @property
    def changed(self) -> set[int]:
        """The numbers of the buffers that changed."""
        return set(self._changes)

    def vector(self, buffers: Buffers) -> Tensor:
        """Return loss, weight, numbers, and the changes of the agreed buffers, in one tensor."""
        single = [self._loss, self._single(self._weight), *self._numbers.values()]
        return torch.cat([torch.stack(single), *buffers.flatten(self._changes)])

    def _single(self, value: float | Tensor) -> Tensor:
        """Return a number on the device, given one on the host or on the device."""
        if not isinstance(value, Tensor):
            return put([value], self._loss.device).squeeze()
        return value.detach().to(self._loss.device, torch.float64).reshape(())
