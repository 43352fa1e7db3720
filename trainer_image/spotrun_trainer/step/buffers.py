"""Modules' buffers (a BatchNorm's statistics) in a step that several processes compute.

Every microbatch starts from the values at the beginning of the step, and the step changes them by
the mean of its microbatches' changes, or by another rule that the script names. So they are the
same at every world size, and a discarded step changes nothing. Most buffers never change; checking
those costs a comparison of version numbers.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.state.tracked import Rule

Changes = dict[int, Tensor]
"""The changes, by the buffer's number, in float64."""

_COUNTS_FORWARDS = "num_batches_tracked"  # of torch's batch norm: grows by one in each step
_OF_BATCH_NORM = {"running_mean", "running_var", _COUNTS_FORWARDS}
"""The names of batch norm's statistics: each microbatch moves them a part of the way from the
step's beginning, so their changes have a mean, but no sum."""


@dataclass(slots=True)
class _Slot:
    """One buffer, as it is when no microbatch is being computed."""

    owner: dict[str, Tensor | None]
    name: str
    tensor: Tensor
    copy: Tensor
    version: int
    rule: Rule | None  # None: the script named no rule

    @property
    def has_no_mean(self) -> bool:
        """Whether a mean of changes makes no sense, as for counters and positions in a queue."""
        is_counter = not self.copy.is_floating_point() and self.name != _COUNTS_FORWARDS
        return self.rule is None and is_counter

    @property
    def now(self) -> Tensor:
        tensor = self.owner[self.name]
        assert tensor is not None, f"the buffer {self.name} was taken away"
        return tensor.detach()

    def is_changed(self) -> bool:
        tensor = self.owner[self.name]
        return tensor is not self.tensor or self.tensor._version != self.version  # noqa: SLF001

    def keep(self) -> None:
        if (tensor := self.owner[self.name]) is not self.tensor and tensor is not None:
            self.tensor, self.copy = tensor, tensor.detach().clone()
        else:
            self.copy.copy_(self.now)
        self.version = self.tensor._version  # noqa: SLF001 - to see a change without a comparison

    def set_back(self) -> None:
        self.owner[self.name] = self.tensor
        self.tensor.detach().copy_(self.copy)
        self.version = self.tensor._version  # noqa: SLF001


class Buffers:
    """The buffers of some modules."""

    def __init__(self, modules: Iterable[nn.Module], rules: Mapping[int, Rule] = {}) -> None:
        """Watch the buffers of modules, each with the rule given for its id."""
        self.agreed: list[int] = []  # buffers that change, as all processes have agreed
        self._is_agreed = False
        self._slots: list[_Slot] = []
        # By module. Batch norm's kernel changes the statistics without a new version, but their
        # counter has one: so the buffers of a module count as changed if one of them is.
        self._families: list[range] = []
        for owner, rule in _owners(modules, rules):
            first = len(self._slots)
            by_mean = _OF_BATCH_NORM if owner.keys() >= _OF_BATCH_NORM else set[str]()
            self._slots += [
                _Slot(
                    owner,
                    name,
                    tensor,
                    tensor.detach().clone(),
                    tensor._version,  # noqa: SLF001
                    None if name in by_mean else rule,
                )
                for name, tensor in owner.items()
                if tensor is not None
            ]
            self._families.append(range(first, len(self._slots)))

    def agree(self, group: Group, changed: Collection[int], microbatches: int) -> None:
        """Agree with all processes on the buffers that change, unless that is known.

        Raises ValueError in all of them for a buffer that changes and has no mean.
        """
        if self._is_agreed:
            return
        flags = [float(number in changed) for number in range(len(self._slots))]
        if flags:
            device = self._slots[0].copy.device
            total = torch.tensor(flags, device=device)
            group.sum_of_stage(total)
            flags = total.tolist()
        self.agreed = [number for number, flag in enumerate(flags) if flag]
        self._is_agreed = True
        for slot in (self._slots[number] for number in self.agreed):
            if microbatches > 1 and slot.has_no_mean:
                raise ValueError(
                    f"the buffer {slot.name} holds whole numbers and changes in microbatches, "
                    "which all begin with the same value: say how a step combines them, "
                    'run.track(model=model, buffers="sum") for counters, "last" to keep '
                    'the value after the last one, or "mean"'
                )

    def forget_agreement(self) -> None:
        """Agree again at the next step, because another buffer has changed in some process."""
        self._is_agreed = False

    def keep(self) -> None:
        """Let microbatches start from the current values."""
        for number in self._changed():
            self._slots[number].keep()

    def take_changes(self, *, is_last: bool = True) -> Changes:
        """Return the changes that count, and restore the earlier values."""
        changes = {}
        for number in self._changed():
            slot = self._slots[number]
            if is_last or slot.rule != "last":
                changes[number] = slot.now.double() - slot.copy.double()
            slot.set_back()
        return changes

    def set_back(self) -> None:
        """Undo the changes of a microbatch that did not end."""
        self.take_changes()

    def flatten(self, changes: Changes) -> list[Tensor]:
        """Return the changes of all agreed buffers, one after the other."""
        return [
            changes[number].flatten()
            if number in changes
            else self._slots[number].copy.new_zeros(self._numel(number), dtype=torch.float64)
            for number in self.agreed
        ]

    def apply(self, changes: Tensor, microbatches: int) -> None:
        """Change the buffers by `flatten`'s tensors, summed over all processes."""
        pieces = torch.split(changes, [self._numel(number) for number in self.agreed])
        for number, piece in zip(self.agreed, pieces, strict=True):
            slot = self._slots[number]
            share = 1 if slot.rule in ("sum", "last") else microbatches
            value = slot.copy.double() + piece.view_as(slot.copy) / share
            if not slot.copy.is_floating_point():
                value = value.round()
            slot.tensor.detach().copy_(value)
            slot.keep()

    def _changed(self) -> list[int]:
        return [
            number
            for family in self._families
            if any(self._slots[number].is_changed() for number in family)
            for number in family
        ]

    def _numel(self, number: int) -> int:
        return self._slots[number].copy.numel()


def _owners(
    modules: Iterable[nn.Module], rules: Mapping[int, Rule]
) -> Iterator[tuple[dict[str, Tensor | None], Rule | None]]:
    parts: dict[int, tuple[nn.Module, Rule | None]] = {}
    for module in modules:
        rule = rules.get(id(module))
        for part in module.modules():  # a parent without a rule does not remove a child's
            _, known = parts.get(id(part), (part, None))
            parts[id(part)] = part, rule or known
    for part, rule in parts.values():
        if part._buffers:  # noqa: SLF001 - to see if one was replaced
            yield part._buffers, rule  # noqa: SLF001
