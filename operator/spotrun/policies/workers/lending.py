"""The workers that a job lends: pods of higher priority may take their place.

Lent pods have the lower PriorityClass, so Kubernetes' scheduler preempts them; a preemption is a
notice, after which the other workers continue. The replacement waits without a node, and gets the
place when it is free again.
"""

from collections.abc import Iterable
from dataclasses import replace

from spotrun.state.actions import Create
from spotrun.state.view import View


def lent(view: View, new: Iterable[Create]) -> tuple[Create, ...]:
    """Return the new workers; those beyond the number that is kept are lent.

    A replica is kept or lent as a whole, because it trains only as a whole.
    """
    lend = view.job.spec.placement.lend
    if lend is None:
        return tuple(new)
    at_least = view.job.spec.workers.min if lend.at_least is None else lend.at_least
    kept = sum(not worker.pod.lent for worker in view.staying)
    is_lent = {worker.pod.replica: worker.pod.lent for worker in view.staying}
    made = []
    for one in new:
        beside = is_lent.get(one.replica) if one.replica is not None else None
        one_is_lent = kept >= at_least if beside is None else beside
        is_lent[one.replica] = one_is_lent
        kept += not one_is_lent
        made.append(replace(one, lent=one_is_lent))
    return tuple(made)
