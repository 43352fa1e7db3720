"""Free room: how much nodes are reported to have, when that is believed, and whether more come."""

from collections import Counter
from datetime import timedelta

from spotrun.policies.placement.queueing.gang import lacks_since
from spotrun.state.view import View

TRIED_SECONDS = 5.0
"""Free capacity that gave no node within this time no longer counts: the scheduler gives away a
node that has become free within milliseconds."""
FIXED_SECONDS = 60.0
"""A pod may take this long to find a node that is there already."""


def believed_room(view: View) -> Counter[str]:
    """Count the workers that find room on nodes, by pool.

    Other pods may have taken that room: a worker that found no node there shows that, and so does
    a long wait.
    """
    return view.once("room", (), lambda: _believed_room(view))


def _believed_room(view: View) -> Counter[str]:
    return Counter() if lacked_seconds(view) >= TRIED_SECONDS else untried_room(view)


def some_room(view: View) -> bool:
    """Whether any pool is reported to have room on its nodes."""
    pools = view.job.market.pools
    return view.once("some room", (), lambda: any(pool.free_slots > 0 for pool in pools))


def is_scaled(view: View) -> bool:
    """Whether the cluster seems to have an autoscaler: a node has come, or a pool is declared."""
    return any(
        pool.declared or pool.provision_seconds is not None for pool in view.job.market.pools
    )


def lacked_seconds(view: View) -> float:
    """Return for how long the job is known to lack nodes; 0 if it is not."""
    since = lacks_since(view.job)
    return (view.now - since) / timedelta(seconds=1) if since is not None else 0.0


def seconds_until_none_rests(view: View) -> float:
    """Return how long until resting pools are asked like others: infinity with an autoscaler."""
    lacked = lacked_seconds(view)
    return FIXED_SECONDS - lacked if lacked and not is_scaled(view) else float("inf")


def untried_room(view: View) -> Counter[str]:
    """Count the same, without pools in which a worker of the job found no node."""
    return view.once_unlimited("untried room", (), lambda: _untried_room(view))


def _untried_room(view: View) -> Counter[str]:
    waiting = (w.pod for w in view.staying if w.node is None and w.pod.unschedulable)
    tried = {name for pod in waiting for name in pod.pools}
    return Counter(
        {pool.name: pool.free_slots for pool in view.job.market.pools if pool.name not in tried}
    )
