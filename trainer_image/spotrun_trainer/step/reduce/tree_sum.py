"""Sums over a step's microbatches whose bits do not depend on which process computed which.

Floating-point addition is not associative, so the order is fixed: the microbatches are the leaves
of a binary tree, and a process that holds two siblings adds the left to the right. A process that
computes a contiguous block of leaves ends with the roots of the largest whole subtrees in its
block, at most two of each size; putting the roots of all processes together in order ends with the
root of all.
"""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Node(NamedTuple, Generic[T]):
    """The sum of `leaves` leaves from `start` on; `start` is a multiple of `leaves`."""

    start: int
    leaves: int
    value: T


class TreeSum(Generic[T]):
    """Takes nodes from left to right, and keeps as few as possible."""

    def __init__(self, add: Callable[[T, T], T]) -> None:
        self.nodes: list[Node[T]] = []
        self._add = add

    def push(self, node: Node[T]) -> None:
        """Take the next node, and add up subtrees that are complete."""
        while self.nodes and _are_siblings(self.nodes[-1], node):
            left = self.nodes.pop()
            node = Node(left.start, 2 * left.leaves, self._add(left.value, node.value))
        self.nodes.append(node)

    def root(self, leaves: int) -> T:
        """Return the sum of all leaves."""
        assert [node[:2] for node in self.nodes] == [(0, leaves)], "some leaves are missing"
        return self.nodes[0].value


def subtrees(block: range) -> list[tuple[int, int]]:
    """Return start and size of the largest complete subtrees in a block of microbatches."""
    tree = TreeSum[None](lambda _left, _right: None)
    for leaf in block:
        tree.push(Node(leaf, 1, None))
    return [(node.start, node.leaves) for node in tree.nodes]


def check_leaves(leaves: int) -> None:
    """Raise ValueError unless this many leaves form a complete tree."""
    if leaves & (leaves - 1):
        below = 1 << (leaves.bit_length() - 1)
        raise ValueError(
            f"deterministic mode adds gradients in a binary tree, but {leaves} microbatches in a "
            f"step do not make one: choose global_batch and microbatch so that there are {below} "
            f"or {2 * below}"
        )


def _are_siblings(left: Node[T], right: Node[T]) -> bool:
    return left.leaves == right.leaves and left.start % (2 * left.leaves) == 0
