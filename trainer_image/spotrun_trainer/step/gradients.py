"""The gradients of one optimizer: accumulated in fp32, summed over all processes.

The protocol `Gradients` has three implementations. `LocalGradients`, for one process, leaves
gradients where autograd puts them. `BucketedGradients` adds them into flat tensors and sums those
over the group while the last backward still runs. `deterministic_reduce.TreeGradients` sums them in
an order that makes the bits equal at every world size.
"""

import functools
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.parallel.local import is_divided, local, local_gradient, summed_gradient
from spotrun_trainer.step.reduce.bucket import (
    BUCKET_BYTES,
    Bucket,
    accumulation_dtype,
    check_dense,
    split,
)
from spotrun_trainer.step.reduce.reducer import Reducer

_NO_GRAPH = -1  # autograd's value outside of a backward


class Gradients(Protocol):
    """An optimizer's gradients between two updates."""

    @property
    def parameters(self) -> Sequence[nn.Parameter]:
        """The parameters in the order of `sums`."""

    @property
    def can_keep(self) -> bool:
        """Whether the sum of complete microbatches can be kept when the world breaks."""

    @property
    def buckets(self) -> Sequence[Bucket]:
        """The buckets that a reducer may send while the last backward still runs."""

    def expect_last(self) -> None:
        """Note that the next backward is the step's last, so complete buckets may be summed."""

    def take(self, microbatch: int) -> None:
        """Take over the gradients of a microbatch whose backward is complete."""

    def reduce(self) -> int:
        """Sum over all processes; return how many parameters got no gradient here."""

    def sums(self, *, some_missing: bool) -> list[Tensor | None]:
        """Return the sum by parameter; None if no process got a gradient for it."""

    def note_applied(self, *, some_missing: bool) -> None:
        """Note that the sums are applied in all processes."""

    def sync_bytes(self, size: int) -> int:
        """Return the bytes of an all-reduce over so many processes that sends as much."""

    def keep(self) -> bool:
        """Go back to what was summed here before the world broke; return whether that exists.

        A microbatch that was not taken over is dropped.
        """

    def drop(self) -> None:
        """Drop the gradients."""

    def follow(self, group: Group) -> bool:
        """Sum over this group from now on; return False if another class fits the group better."""

    def close(self) -> None:
        """Remove all hooks: another implementation takes over."""


class LocalGradients:
    """The gradients of a single process in full precision: just `parameter.grad`."""

    can_keep = False  # autograd may have added a part of a microbatch

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = parameters
        self.buckets: Sequence[Bucket] = ()
        self._is_dense = False

    @staticmethod
    def fits(parameters: Sequence[nn.Parameter], group: Group) -> bool:
        """Whether there is nothing to sum, and no precision to gain."""
        return group.size == 1 and all(one.dtype == accumulation_dtype(one) for one in parameters)

    def expect_last(self) -> None:
        """Do nothing: there is nothing to sum."""

    def take(self, microbatch: int) -> None:
        """Check the gradients, which autograd adds up: with more processes they are summed."""
        if not self._is_dense:
            for parameter in self.parameters:
                check_dense(parameter)
            self._is_dense = True

    def reduce(self) -> int:
        """Return 0: missing gradients do not matter.

        Processes that share a layer add up its gradients here: if they did it after the commit, a
        loss during it would leave some without a step that others have applied.
        """
        for parameter in self.parameters:
            if is_divided(parameter):
                parameter.grad = summed_gradient(parameter)
        return 0

    def sums(self, *, some_missing: bool) -> list[Tensor | None]:
        """Return the gradients themselves."""
        return [local_gradient(parameter) for parameter in self.parameters]

    def note_applied(self, *, some_missing: bool) -> None:
        """Do nothing: nothing was left out."""

    def sync_bytes(self, size: int) -> int:
        """Return the bytes that would be summed in a larger world."""
        return plain_bytes(self.parameters)

    def keep(self) -> bool:
        """Return False: nothing can be kept."""
        return self.can_keep

    def drop(self) -> None:
        """Drop the gradients."""
        clear(self.parameters)

    def follow(self, group: Group) -> bool:
        """Return whether the group has one process only."""
        return group.size == 1

    def close(self) -> None:
        """Do nothing: there are no hooks."""


class BucketedGradients:
    """Flat sums, reduced over the group in a fixed order.

    In the last backward of a phase a bucket is sent as soon as it is complete and the previous ones
    are sent. That requires exactly one backward per microbatch, which the first step shows.
    """

    can_keep = True

    def __init__(
        self, parameters: Sequence[nn.Parameter], reducer: Reducer, bucket_bytes: int = BUCKET_BYTES
    ) -> None:
        self._reducer = reducer
        # The last parameters get their gradients first.
        self.buckets = [
            Bucket(part, reducer.compression) for part in split(parameters[::-1], bucket_bytes)
        ]
        self.parameters = [one for bucket in self.buckets for one in bucket.parameters]
        self._has_one_backward: bool | None = None
        self._has_one_graph = True  # each microbatch has one, so it shows which parameters are used
        self._graph = _NO_GRAPH  # the graph of the gradients in the current microbatch
        self._has_taken = False
        self._is_last = False  # the next backward is the step's last
        self._is_left_in_grad = False  # its gradients stay there until their sum is complete
        self._hooks: list[RemovableHandle] = []
        self.follow(reducer.group)

    def expect_last(self) -> None:
        """Send buckets while the last backward still runs."""
        self._is_last = True
        if self._has_one_backward:
            for bucket in self.buckets:
                bucket.expect_all()

    def take(self, microbatch: int) -> None:
        """Add the gradients to the buckets."""
        self._has_taken = True
        self._graph = _NO_GRAPH
        for bucket in self.buckets:
            if bucket.work is None and bucket.arrived > self._take(bucket):
                self._has_one_backward = False
            bucket.arrived, bucket.expected = 0, None
        self._is_left_in_grad = self._is_last

    def reduce(self) -> int:
        """Sum over all processes; the update waits for that."""
        self._reducer.finish(self.buckets)
        if self._has_one_backward is None and self._has_taken and self._hooks:
            self._has_one_backward = True
        return sum(bucket.missing for bucket in self.buckets)

    def sums(self, *, some_missing: bool) -> list[Tensor | None]:
        """Return the sums by parameter."""
        return sums_of(self.buckets, some_missing=some_missing)

    def note_applied(self, *, some_missing: bool) -> None:
        """Keep what the sums left out, for the next sums."""
        for bucket in self.buckets:
            bucket.keep_rest(some_missing=some_missing)

    def sync_bytes(self, size: int) -> int:
        """Return the bytes of all buckets."""
        return sum(bucket.sync_bytes(size) for bucket in self.buckets)

    def keep(self) -> bool:
        """Go back to the state before buckets were sent, except for those that are summed."""
        is_whole = self._is_left_in_grad
        self._begin_anew()
        kept = [bucket.keep(is_whole=is_whole) for bucket in self.buckets]
        return all(kept)

    def drop(self) -> None:
        """Drop the gradients."""
        clear(self.parameters)
        self._begin_anew()
        for bucket in self.buckets:
            bucket.drop()

    def follow(self, group: Group) -> bool:
        """Use another group with the same flat tensors; with one process these are not useful."""
        # If torch divides parameters it adds gradients up itself, within a backward.
        if group.size > 1 and not self._hooks and not any(map(is_divided, self.parameters)):
            self._hooks = [
                parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                    functools.partial(self._note, bucket)
                )
                for bucket in self.buckets
                for parameter in bucket.parameters
            ]
        # With compression a single process continues too: what it left out before is applied then.
        is_kept = self._reducer.compression is not None
        return is_kept or not LocalGradients.fits(self.parameters, group)

    def close(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()

    def _begin_anew(self) -> None:
        self._graph, self._is_last, self._is_left_in_grad = _NO_GRAPH, False, False

    def _take(self, bucket: Bucket) -> int:
        """Add a bucket's gradients, or leave the last ones to the sum; return how many."""
        is_left = self._is_last and self._reducer.sums_apart(bucket)
        return bucket.count() if is_left else bucket.take()

    def _note(self, bucket: Bucket, _parameter: Tensor) -> None:
        if bucket.work is not None:
            raise ValueError(
                "the last microbatch of this step went through backward twice, which none before "
                "did, and its first gradients are already being sent: add the losses up, and call "
                "step.backward once"
            )
        bucket.arrived += 1
        graph = torch._C._current_graph_task_id()  # noqa: SLF001 - as register_multi_grad_hook does
        if graph != self._graph:
            self._enter_graph(graph)
        if bucket.expected is not None:
            self._reducer.send_complete()

    def _enter_graph(self, graph: int) -> None:
        """Note the first gradient of a backward.

        If a microbatch has several backwards (checkpointing with use_reentrant=True nests them),
        none of them shows what the others will compute.
        """
        self._has_one_graph &= self._graph == _NO_GRAPH
        self._graph = graph
        for bucket in self.buckets:
            if bucket.expected is None or bucket.work is not None:
                continue
            if self._has_one_graph:
                bucket.expect_what_is_used()
            else:
                bucket.expect_all()


def sums_of(buckets: Sequence[Bucket], *, some_missing: bool) -> list[Tensor | None]:
    """Return sums by parameter; marks are fetched, together, only if some gradients are missing."""
    views = [view for bucket in buckets for view in bucket.views]
    if not some_missing or not views:  # no views if all parameters of the optimizer are frozen
        return list(views)
    marks = torch.cat([bucket.marks.to(buckets[0].marks) for bucket in buckets]).tolist()
    return [view if mark else None for view, mark in zip(views, marks, strict=True)]


def plain_bytes(parameters: Sequence[nn.Parameter]) -> int:
    """Return the bytes of the sums of the parameters' gradients."""
    return sum(local(one).numel() * accumulation_dtype(one).itemsize for one in parameters)


def clear(parameters: Sequence[nn.Parameter]) -> None:
    """Drop all gradients."""
    for parameter in parameters:
        parameter.grad = None
