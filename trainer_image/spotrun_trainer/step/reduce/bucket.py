"""Gradients of some parameters in one flat tensor, which is summed over the group."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from spotrun_trainer.elastic.pending_collectives import Pending, Work
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.parallel.local import local, local_gradient
from spotrun_trainer.step.reduce.compression import Compression
from spotrun_trainer.step.reduce.exchange import Exchange

BUCKET_BYTES = 25 * 2**20  # as in DDP: large enough for bandwidth, small enough to overlap


class Bucket:
    """Some parameters' gradients in one flat tensor, followed by a mark for each that has one."""

    def __init__(
        self, parameters: Sequence[nn.Parameter], compression: Compression | None = None
    ) -> None:
        self.parameters = parameters
        parts = [local(parameter) for parameter in parameters]
        sizes = [part.numel() for part in parts]
        first = parameters[0]
        self.flat = torch.zeros(
            sum(sizes) + len(sizes), dtype=accumulation_dtype(first), device=first.device
        )
        self._sizes = [*sizes, len(sizes)]
        self._shapes = [part.shape for part in parts]
        self.views, self._marks = self._views_of(self.flat)
        self._has = [False] * len(parameters)
        # The previous step's marks: they hardly change, and copying new ones stalls a GPU.
        self._marked, self._known = list(self._has), self._marks.clone()
        self._sometimes = set[int]()  # parameters that got no gradient in some microbatch
        self.arrived = 0  # gradients, in the current microbatch
        self.expected: int | None = None  # gradients; None before the last microbatch
        self.work: Pending | None = None  # once it is sent
        self.is_summed = False  # `flat` is the sum over all processes of the whole step
        self.is_elsewhere = False  # another process has that sum, and this one adds zeros
        self._apart: Tensor | None = None  # the sum's own tensor, so that `flat` stays as it is
        self._exchange: Exchange | None = None  # in fewer bytes, if so
        if compression is not None:
            self._exchange = Exchange(compression.codec([one.shape for one in parts]), sizes)

    @property
    def is_complete(self) -> bool:
        """Whether all gradients have arrived, as far as that is known before the update."""
        return self.expected is not None and self.arrived >= self.expected

    @property
    def is_there(self) -> bool:
        """Whether its sum is complete, or has failed: a wait returns at once."""
        return isinstance(self.work, Work) and self.work.is_completed()

    def expect_all(self) -> None:
        """Expect one gradient for each parameter in the next backward."""
        self.expected = len(self.parameters)

    def expect_what_is_used(self) -> None:
        """Expect only the gradients that the current backward computes.

        Autograd is asked only about parameters that had no gradient before.
        """
        unused = sum(not _is_used(self.parameters[index]) for index in self._sometimes)
        self.expected = len(self.parameters) - unused

    def take(self) -> int:
        """Add the gradients that autograd left in `grad`; return how many there were."""
        if self.is_summed:  # that sum contains the microbatch already
            return self._drop_new()
        new: list[tuple[Tensor, Tensor]] = []
        more: list[tuple[Tensor, Tensor]] = []
        for index, gradient in self._new():
            pair = (self.views[index], gradient)
            (more if self._has[index] else new).append(pair)
            self._has[index] = True
            self.parameters[index].grad = None
        if new:
            torch._foreach_copy_(*_unzip(new))
        if more:
            torch._foreach_add_(*_unzip(more))
        return len(new) + len(more)

    def count(self) -> int:
        """Return how many gradients autograd left in `grad`, where they stay until it is summed."""
        return sum(1 for _ in self._new())

    def complete(self) -> Tensor:
        """Return the flat tensor, with zeros for missing gradients."""
        if self.is_summed:
            return self.flat
        for view, has in zip(self.views, self._has, strict=True):
            if not has:
                view.zero_()
        self._marks.copy_(self._marks_for(self._has))
        return self.flat

    def send_apart(self, group: Group) -> Pending:
        """Begin to sum it over the group, in another tensor; flat tensor and `grad` stay."""
        self._apart = torch.empty_like(self.flat)
        if self.is_elsewhere:
            self._apart.zero_()
        elif self.is_summed:
            self._apart.copy_(self.flat)
        else:
            self._fill(self._apart)
        return group.all_reduce(self._apart)

    def settle(self) -> None:
        """Use the sum, which is complete, as the gradients."""
        if self._apart is None:
            return
        if not self.is_summed:
            self._has = self._has_with_new()
        self.flat, self._apart = self._apart, None
        self.views, self._marks = self._views_of(self.flat)
        self.is_summed = True
        self._drop_new()

    def keep(self, *, is_whole: bool) -> bool:
        """Go back to the state before it was sent; return whether that is possible.

        The gradients in `grad` count if they are those of a whole microbatch.
        """
        is_in_place = self.work is not None and self._apart is None and not self.is_summed
        self._apart = None
        if is_whole:
            self.take()
        else:
            self._drop_new()
        self.arrived, self.expected, self.work, self.is_elsewhere = 0, None, None, False
        return not is_in_place

    def send(self, group: Group, *, is_dropped: bool = False) -> Pending:
        """Begin to sum it over the group, in place; `is_dropped`: all will drop the sum."""
        flat = self.complete()
        if self._exchange is None:
            return group.all_reduce(flat)
        values = flat[: -len(self._marks)]
        return self._exchange.begin(values, self._marks, group, is_dropped=is_dropped)

    def keep_rest(self, *, some_missing: bool) -> None:
        """Note that the sum is applied: what it left out is added to the next one."""
        if self._exchange is not None:
            self._exchange.keep_rest(self._marks, some_missing=some_missing)

    def sync_bytes(self, size: int) -> int:
        """Return the bytes of an all-reduce over so many processes that sends as much."""
        return self.flat.nbytes if self._exchange is None else self._exchange.sync_bytes(size)

    @property
    def missing(self) -> int:
        """The number of parameters that got no gradient in this process."""
        return 0 if self.is_elsewhere else len(self._has) - sum(self._has)

    @property
    def marks(self) -> Tensor:
        """The number of processes with a gradient, for each parameter, once it is summed."""
        return self._marks

    def drop(self) -> None:
        """Drop the gradients."""
        self._has = [False] * len(self.parameters)
        self.arrived, self.expected, self.work = 0, None, None
        self.is_summed, self.is_elsewhere, self._apart = False, False, None
        if self._exchange is not None:
            self._exchange.drop()

    def _views_of(self, flat: Tensor) -> tuple[list[Tensor], Tensor]:
        *pieces, marks = torch.split(flat, self._sizes)
        return [each.view(shape) for each, shape in zip(pieces, self._shapes, strict=True)], marks

    def _new(self) -> Iterator[tuple[int, Tensor]]:
        """Yield the gradients in `grad`; note which are missing."""
        for index, parameter in enumerate(self.parameters):
            if (gradient := local_gradient(parameter)) is not None:
                check_dense(parameter)
                yield index, gradient
            else:
                self._sometimes.add(index)

    def _drop_new(self) -> int:
        number = sum(parameter.grad is not None for parameter in self.parameters)
        for parameter in self.parameters:
            parameter.grad = None
        return number

    def _has_with_new(self) -> list[bool]:
        new = {index for index, _ in self._new()}
        return [has or index in new for index, has in enumerate(self._has)]

    def _fill(self, out: Tensor) -> None:
        """Write the sum of the flat tensor and the gradients in `grad`, in one pass over memory."""
        new, (views, marks) = dict(self._new()), self._views_of(out)
        for index, (view, own) in enumerate(zip(views, self.views, strict=True)):
            gradient = new.get(index)
            if gradient is None:
                view.copy_(own) if self._has[index] else view.zero_()
            elif self._has[index]:
                torch.add(own, gradient, out=view)
            else:
                view.copy_(gradient)
        marks.copy_(self._marks_for(self._has_with_new()))

    def _marks_for(self, has: list[bool]) -> Tensor:
        if has != self._marked:
            self._marked = list(has)
            self._known = torch.tensor(has, dtype=self.flat.dtype, device=self.flat.device)
        return self._known


def split(parameters: Sequence[nn.Parameter], bucket_bytes: int) -> list[list[nn.Parameter]]:
    """Split parameters into parts of at most `bucket_bytes`, each of one device and type."""
    parts: list[list[nn.Parameter]] = []
    room: dict[tuple[torch.device, torch.dtype], tuple[list[nn.Parameter], int]] = {}
    for parameter in parameters:
        dtype = accumulation_dtype(parameter)
        size = local(parameter).numel() * dtype.itemsize
        part, left = room.get((parameter.device, dtype), ([], 0))
        if size > left or not part:  # the first one may be a part without elements
            part, left = [], bucket_bytes
            parts.append(part)
        part.append(parameter)
        room[parameter.device, dtype] = (part, left - size)
    return parts


def accumulation_dtype(parameter: Tensor) -> torch.dtype:
    """Return at least fp32: in bf16 the eighth microbatch already loses half its digits."""
    return torch.promote_types(parameter.dtype, torch.float32)


def check_dense(parameter: nn.Parameter) -> None:
    """Raise ValueError for a gradient that cannot be summed."""
    if parameter.grad is not None and parameter.grad.is_sparse:
        raise ValueError(
            "a parameter has sparse gradients, which cannot be summed over processes: make its "
            "module with sparse=False"
        )


def _is_used(parameter: nn.Parameter) -> bool:
    if not parameter.requires_grad:  # frozen after the step began
        return False
    node = get_gradient_edge(parameter).node
    # As torch's own register_multi_grad_hook asks.
    return bool(torch._C._will_engine_execute_node(node))  # noqa: SLF001


def _unzip(pairs: list[tuple[Tensor, Tensor]]) -> tuple[list[Tensor], list[Tensor]]:
    return [one for one, _ in pairs], [other for _, other in pairs]
