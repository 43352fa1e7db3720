"""Sums over processes in the order of a tree: the same bits at every world size.

Each process sends the roots of its subtrees, cut into one chunk per process; the owner of a chunk
adds them up in order, and all chunks are gathered. With one subtree per process this sends as many
bytes as a ring all-reduce.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from spotrun_trainer.data.order.sharding import deal
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.step.gradients import clear, plain_bytes, sums_of
from spotrun_trainer.step.reduce.bucket import BUCKET_BYTES, Bucket, split
from spotrun_trainer.step.reduce.tree_sum import Node, TreeSum, subtrees


class TreeGradients:
    """An optimizer's gradients, kept as partial sums of the tree; implements `Gradients`."""

    can_keep = False  # other processes would add other subtrees

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        group: Group,
        leaves: int,
        bucket_bytes: int = BUCKET_BYTES,
    ) -> None:
        self._group = group
        self._leaves = leaves
        self._parts = [Bucket(part) for part in split(parameters, bucket_bytes)]
        self.parameters = [one for bucket in self._parts for one in bucket.parameters]
        self.buckets: Sequence[Bucket] = ()  # no bucket can be sent before the backward ends
        self._missing = 0
        self.drop()

    def expect_last(self) -> None:
        """Do nothing: partial sums are sent after the last backward."""

    def take(self, microbatch: int) -> None:
        """Make a leaf of the gradients."""
        leaf = []
        for bucket in self._parts:
            bucket.take()
            self._missing += bucket.missing
            leaf.append(bucket.complete().clone())
            bucket.drop()
        self._tree.push(Node(microbatch, 1, leaf))

    def reduce(self) -> int:
        """Add up the partial sums of all processes."""
        for index, bucket in enumerate(self._parts):
            nodes = [Node(start, size, leaf[index]) for start, size, leaf in self._tree.nodes]
            bucket.flat.copy_(sum_over(self._group, nodes, self._leaves, like=bucket.flat))
        return self._missing

    def sums(self, *, some_missing: bool) -> list[Tensor | None]:
        """Return the sums by parameter."""
        return sums_of(self._parts, some_missing=some_missing)

    def note_applied(self, *, some_missing: bool) -> None:
        """Do nothing: nothing was left out."""

    def sync_bytes(self, size: int) -> int:
        """Return the bytes of the sums."""
        return plain_bytes(self.parameters)

    def keep(self) -> bool:
        """Return False: nothing can be kept."""
        return self.can_keep

    def drop(self) -> None:
        """Drop the gradients and partial sums."""
        clear(self.parameters)
        self._missing = 0
        self._tree = TreeSum[list[Tensor]](_add)

    def follow(self, group: Group) -> bool:
        """Use another group; the tree is the same in every world."""
        self._group = group
        return True

    def close(self) -> None:
        """Do nothing: there are no hooks."""


def sum_over(group: Group, nodes: Sequence[Node[Tensor]], leaves: int, *, like: Tensor) -> Tensor:
    """Return the sum of all leaves, flat like `like`, from each process's partial sums."""
    if group.size == 1:
        return _root(nodes, leaves)
    chunk = -(-like.numel() // group.size)
    held = [
        subtrees(deal(leaves, group.size, rank, group.idle, group.dealt))
        for rank in range(group.size)
    ]
    given = _in_chunks(nodes, chunk, group.size, like)
    received = like.new_empty(sum(map(len, held)) * chunk)
    group.all_to_all(
        received, given, [len(roots) * chunk for roots in held], [len(nodes) * chunk] * group.size
    ).wait()
    pieces = received.view(-1, chunk)
    places = [place for roots in held for place in roots]
    whole = _root(
        [Node(*place, piece) for place, piece in zip(places, pieces, strict=True)], leaves
    )
    return group.all_gather(whole).flatten()[: like.numel()]


def _in_chunks(nodes: Sequence[Node[Tensor]], chunk: int, size: int, like: Tensor) -> Tensor:
    """Return the chunks of all nodes for the first process, then for the second, and so on."""
    if not nodes:
        return like.new_empty(0)
    padding = chunk * size - like.numel()
    padded = torch.stack([functional.pad(node.value, (0, padding)) for node in nodes])
    return padded.view(len(nodes), size, chunk).transpose(0, 1).flatten()


def _root(nodes: Sequence[Node[Tensor]], leaves: int) -> Tensor:
    tree = TreeSum[Tensor](torch.add)
    for node in nodes:
        tree.push(node)
    return tree.root(leaves)


def _add(left: list[Tensor], right: list[Tensor]) -> list[Tensor]:
    if left:  # empty if all parameters are frozen
        torch._foreach_add_(left, right)
    return left
