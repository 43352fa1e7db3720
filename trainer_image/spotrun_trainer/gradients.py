"""The gradients of one optimizer: accumulated in fp32, summed over all processes.

Three ways with one face (`Gradients`): `Own`, alone, leaves them where autograd puts them;
`Bucketed` adds them into flat tensors and sums those over the group, while the last backward still
runs; `treed.Treed` does it in an order that makes the bits equal at every world size.
"""

import functools
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from spotrun_trainer.group import Group
from spotrun_trainer.work import Pending

BUCKET_BYTES = 25 * 2**20  # as DDP: large enough for bandwidth, small enough to overlap


class Gradients(Protocol):
    """What becomes of an optimizer's gradients between two updates."""

    @property
    def parameters(self) -> Sequence[nn.Parameter]:
        """In the order of `sums`."""

    def expect_last(self) -> None:
        """The backward that follows is the step's last: what is complete may be summed."""

    def take(self, microbatch: int) -> None:
        """A microbatch's backward is complete: take over its gradients."""

    def reduce(self) -> int:
        """Sum over all processes; returns how many parameters got no gradient here."""

    def sums(self, *, some_missing: bool) -> list[Tensor | None]:
        """By parameter: the sum; None if no process got a gradient for it."""

    def drop(self) -> None:
        """Begin anew."""

    def follow(self, group: Group) -> bool:
        """Sum over this group from now on; false if another way is better there."""

    def close(self) -> None:
        """Others take over."""


class Own:
    """Alone, in full precision: `parameter.grad` is all there is."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = parameters
        self._is_dense = False

    @staticmethod
    def fits(parameters: Sequence[nn.Parameter], group: Group) -> bool:
        """Whether there is nothing to be summed, and no precision to be won."""
        return group.size == 1 and all(one.dtype == accumulation_dtype(one) for one in parameters)

    def expect_last(self) -> None:
        """Nothing to sum."""

    def take(self, microbatch: int) -> None:
        """Nothing to do: autograd has added it up. But more processes may come, and sum it."""
        if not self._is_dense:
            for parameter in self.parameters:
                _check_dense(parameter)
            self._is_dense = True

    def reduce(self) -> int:
        """Nothing to sum; nobody asks about missing ones either."""
        return 0

    def sums(self, *, some_missing: bool) -> list[Tensor | None]:
        """The gradients themselves."""
        return [parameter.grad for parameter in self.parameters]

    def drop(self) -> None:
        """Let go of them."""
        clear(self.parameters)

    def follow(self, group: Group) -> bool:
        """Only a process that is alone can."""
        return group.size == 1

    def close(self) -> None:
        """Nothing holds on to them."""


class Bucket:
    """Some parameters' gradients in one flat tensor; after them, for each, whether it has one."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = parameters
        sizes = [parameter.numel() for parameter in parameters]
        first = parameters[0]
        self.flat = torch.zeros(
            sum(sizes) + len(sizes), dtype=accumulation_dtype(first), device=first.device
        )
        *pieces, self._marks = torch.split(self.flat, [*sizes, len(sizes)])
        self.views = [
            piece.view_as(parameter) for piece, parameter in zip(pieces, parameters, strict=True)
        ]
        self._has = [False] * len(parameters)
        # The marks of the step before, for they hardly change: to fetch new ones halts a GPU.
        self._marked, self._known = list(self._has), self._marks.clone()
        self.work: Pending | None = None

    def take(self) -> int:
        """Add what autograd has left in `grad`; returns of how many parameters."""
        new: list[tuple[Tensor, Tensor]] = []
        more: list[tuple[Tensor, Tensor]] = []
        for index, parameter in enumerate(self.parameters):
            if parameter.grad is not None:
                _check_dense(parameter)
                pair = (self.views[index], parameter.grad)
                (more if self._has[index] else new).append(pair)
                self._has[index] = True
                parameter.grad = None
        if new:
            torch._foreach_copy_(*_unzip(new))
        if more:
            torch._foreach_add_(*_unzip(more))
        return len(new) + len(more)

    def complete(self) -> Tensor:
        """The flat tensor, with zeros where there was no gradient."""
        for view, has in zip(self.views, self._has, strict=True):
            if not has:
                view.zero_()
        if self._has != self._marked:
            self._marked = list(self._has)
            self._known = torch.tensor(self._has, dtype=self.flat.dtype, device=self.flat.device)
        self._marks.copy_(self._known)
        return self.flat

    @property
    def missing(self) -> int:
        """How many parameters got no gradient in this process."""
        return len(self._has) - sum(self._has)

    def sums(self, *, some_missing: bool) -> list[Tensor | None]:
        """By parameter; only if some are missing somewhere the marks need to be fetched."""
        if not some_missing:
            return list(self.views)
        return [
            view if mark else None
            for view, mark in zip(self.views, self._marks.tolist(), strict=True)
        ]

    def drop(self) -> None:
        """Begin anew."""
        self._has = [False] * len(self.parameters)
        self.work = None


class Bucketed:
    """Flat sums, reduced over the group in a fixed order.

    In the last backward of a step a bucket is sent as soon as it is complete and those before it
    were sent. That takes exactly one backward per microbatch, which the first step shows.
    """

    def __init__(
        self, parameters: Sequence[nn.Parameter], group: Group, bucket_bytes: int = BUCKET_BYTES
    ) -> None:
        self._group = group
        # The last parameters get their gradients first.
        self._buckets = [Bucket(part) for part in split(parameters[::-1], bucket_bytes)]
        self.parameters = [one for bucket in self._buckets for one in bucket.parameters]
        self._arrived = [0] * len(self._buckets)  # gradients, in the present microbatch
        self._has_one_backward: bool | None = None
        self._has_taken = False
        self._is_last = False
        self._sent = 0
        self._hooks: list[RemovableHandle] = []
        self.follow(group)

    def expect_last(self) -> None:
        """Send buckets while the last backward still runs."""
        self._is_last = self._has_one_backward is True

    def take(self, microbatch: int) -> None:
        """Add up."""
        self._has_taken = True
        for number, bucket in enumerate(self._buckets):
            if number >= self._sent:
                gradients = bucket.take()
                if self._arrived[number] > gradients:
                    self._has_one_backward = False
            self._arrived[number] = 0
        self._is_last = False

    def reduce(self) -> int:
        """Sum over all processes; nothing is applied before that is complete."""
        while self._sent < len(self._buckets):
            self._send()
        for bucket in self._buckets:
            assert bucket.work is not None, "sent"
            bucket.work.wait()
        if self._has_one_backward is None and self._has_taken:
            self._has_one_backward = True
        return sum(bucket.missing for bucket in self._buckets)

    def sums(self, *, some_missing: bool) -> list[Tensor | None]:
        """By parameter."""
        return [one for bucket in self._buckets for one in bucket.sums(some_missing=some_missing)]

    def drop(self) -> None:
        """Begin anew."""
        clear(self.parameters)
        self._arrived = [0] * len(self._buckets)
        self._is_last, self._sent = False, 0
        for bucket in self._buckets:
            bucket.drop()

    def follow(self, group: Group) -> bool:
        """The flat tensors stay; alone they are of no use."""
        self._group = group
        if group.size > 1 and not self._hooks:
            self._hooks = [
                parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                    functools.partial(self._note, number)
                )
                for number, bucket in enumerate(self._buckets)
                for parameter in bucket.parameters
            ]
        return not Own.fits(self.parameters, group)

    def close(self) -> None:
        """Hear of no more gradients."""
        for hook in self._hooks:
            hook.remove()

    def _note(self, number: int, _parameter: Tensor) -> None:
        if number < self._sent:
            raise ValueError(
                "the last microbatch of this step went through backward twice, which none before "
                "did, and its first gradients are on their way: add the losses up, and call "
                "step.backward once"
            )
        self._arrived[number] += 1
        while self._is_last and self._sent < len(self._buckets):
            bucket = self._buckets[self._sent]
            if self._arrived[self._sent] < len(bucket.parameters):
                return
            bucket.take()
            self._send()

    def _send(self) -> None:
        bucket = self._buckets[self._sent]
        bucket.work = self._group.all_reduce(bucket.complete())
        self._sent += 1


def split(parameters: Sequence[nn.Parameter], bucket_bytes: int) -> list[list[nn.Parameter]]:
    """Parts of at most so many bytes, each of one device and one type of numbers."""
    parts: list[list[nn.Parameter]] = []
    room: dict[tuple[torch.device, torch.dtype], tuple[list[nn.Parameter], int]] = {}
    for parameter in parameters:
        dtype = accumulation_dtype(parameter)
        size = parameter.numel() * dtype.itemsize
        part, left = room.get((parameter.device, dtype), ([], 0))
        if size > left:
            part, left = [], bucket_bytes
            parts.append(part)
        part.append(parameter)
        room[parameter.device, dtype] = (part, left - size)
    return parts


def accumulation_dtype(parameter: Tensor) -> torch.dtype:
    """At least fp32: in bf16 the eighth microbatch already loses half its digits."""
    return torch.promote_types(parameter.dtype, torch.float32)


def _check_dense(parameter: nn.Parameter) -> None:
    if parameter.grad is not None and parameter.grad.is_sparse:
        raise ValueError(
            "a parameter has sparse gradients, which cannot be summed over processes: make its "
            "module with sparse=False"
        )


def clear(parameters: Sequence[nn.Parameter]) -> None:
    """Let go of all gradients."""
    for parameter in parameters:
        parameter.grad = None


def _unzip(pairs: list[tuple[Tensor, Tensor]]) -> tuple[list[Tensor], list[Tensor]]:
    return [one for one, _ in pairs], [other for _, other in pairs]
