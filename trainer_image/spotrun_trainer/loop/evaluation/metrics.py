"""The metrics of an evaluation: sums over its batches, by name, and their weights."""

import json
from collections.abc import Mapping

import torch
from torch import Tensor

Metric = Tensor | tuple[Tensor, float | Tensor | None]
"""A batch's metric: a mean, or a sum and its weight; with weight None the sum is not divided."""

_ALONE = ""  # the name of a single metric without a name


class Totals:
    """One process's sums; all processes have the same names once they have agreed."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._is_mean: dict[str, bool] = {}
        self._sums: dict[str, Tensor] = {}  # each with its weight

    def add(self, found: Metric | Mapping[str, Metric], samples: int) -> None:
        """Add the metrics of a batch with this many samples."""
        named = found if isinstance(found, Mapping) else {_ALONE: found}
        pairs = {name: _pair(metric, samples) for name, metric in named.items()}
        kinds = {name: weight is not None for name, (_, weight) in pairs.items()}
        if self._is_mean and kinds != self._is_mean:
            raise ValueError(_difference(set(kinds), set(self._is_mean)))
        self._is_mean = kinds
        for name, pair in pairs.items():
            before = self._sums.get(name)
            new = self._vector(*pair)
            self._sums[name] = new if before is None else before + new

    def kinds(self) -> str:
        """Return the names, and which of them are means, as a text."""
        return json.dumps(self._is_mean)

    def agree(self, kinds: str) -> None:
        """Use the first process's names, which must be the same everywhere."""
        theirs = json.loads(kinds)
        if self._is_mean and self._is_mean != theirs:
            raise ValueError(_difference(set(self._is_mean), set(theirs)))
        self._is_mean = theirs

    def numbers(self) -> Tensor:
        """Return all sums and weights, in the same order everywhere."""
        none = self._vector(0.0, 0.0)
        return torch.cat([self._sums.get(name, none) for name in self._is_mean])

    def results(self, numbers: Tensor, *, copies: int) -> float | dict[str, float]:
        """Return the metrics from the sums over all, where each sample counts `copies` times."""
        results = {
            name: total / weight if is_mean else total / copies
            for (name, is_mean), (total, weight) in zip(
                self._is_mean.items(), _divisible(numbers).tolist(), strict=True
            )
        }
        return results[_ALONE] if set(results) == {_ALONE} else results

    def _vector(self, total: float | Tensor, weight: float | Tensor | None) -> Tensor:
        parts = (total, 0.0 if weight is None else weight)
        return torch.stack(
            [
                torch.as_tensor(part, device=self._device).detach().double().reshape(())
                for part in parts
            ]
        )


def _pair(metric: Metric, samples: int) -> tuple[Tensor, float | Tensor | None]:
    if isinstance(metric, tuple):
        return metric
    return torch.as_tensor(metric).double() * samples, samples  # in fp16 it could overflow


def _divisible(numbers: Tensor) -> Tensor:
    """Return rows of a sum and its weight, which is NaN instead of zero."""
    rows = numbers.reshape(-1, 2).clone()
    rows[rows[:, 1] == 0, 1] = torch.nan
    return rows


def _difference(own: set[str], others: set[str]) -> str:
    names = ", ".join(sorted(own ^ others)) or "a mean, and a sum that is not a mean"
    return (
        "run.evaluate got different metrics for some batches than for others (" + names + "): "
        "return the same names for each, with a sum and a weight of 0 if a batch has no value for "
        "one"
    )
