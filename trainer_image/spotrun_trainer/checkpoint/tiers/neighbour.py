"""The worker that keeps the copy of another worker's parts: pure functions."""

from collections import defaultdict
from collections.abc import Sequence


def keepers(nodes: Sequence[str]) -> tuple[int | None, ...]:
    """Return, for each worker, the worker that keeps the copy of its parts.

    `nodes` are the nodes that the workers run on, in the order of ranks. The copy goes to the next
    node of a ring, never to the same node, and the workers there share the work. None: there is no
    other node.
    """
    on_node = defaultdict[str, list[int]](list)
    for worker, node in enumerate(nodes):
        on_node[node].append(worker)
    ring = [*on_node]
    found: list[int | None] = [None] * len(nodes)
    for place, node in enumerate(ring if len(ring) > 1 else ()):
        others = on_node[ring[(place + 1) % len(ring)]]
        for number, worker in enumerate(on_node[node]):
            found[worker] = others[number % len(others)]
    return tuple(found)
