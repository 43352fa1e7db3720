"""The boost of a job in its queue: the price of an interruption, added to its priority.

Among jobs of equal priority Kueue then first preempts those that are cheapest to interrupt. Only
Workloads that hold quota get a boost: waiting ones are ordered by priority alone, so two jobs
cannot preempt each other in turns. A boost is never below zero, so no job is preempted by a job of
equal priority.
"""

from collections.abc import Iterator
from decimal import Decimal

from spotrun.money.units import Usd
from spotrun.policies.policy import Policy
from spotrun.policies.report.interruption_price import suspension_usd
from spotrun.state.actions import BoostRequest
from spotrun.state.job_state import JobState
from spotrun.state.view import FINISHED, View

_LEAST = Usd(Decimal("0.01"))
"""Prices up to a cent add nothing; each doubling beyond adds one."""
_STEP = 2
"""A boost is written again when it differs by this much, or becomes zero: a price changes all the
time, and with each write Kueue examines its queue."""


def boost_of(price: Usd, most: int) -> int:
    """Return the boost for a price: how often a cent has to be doubled for it."""
    boost, reached = 0, _LEAST
    while boost < most and reached + reached <= price:
        boost, reached = boost + 1, reached + reached
    return boost


def boosts(view: View, status: JobState) -> Iterator[BoostRequest]:
    """Write the boost on the requests of a job that do not have it yet."""
    queue = view.job.queue
    if queue is None or not queue.most_boost or status.phase in FINISHED:
        return
    trains = boost_of(suspension_usd(status), queue.most_boost)
    for one in queue.open_requests:
        wanted, said = trains if one.workers else 0, one.boost or 0
        if abs(wanted - said) >= _STEP or (said and not wanted):
            yield BoostRequest(one, wanted)


QUEUE_BOOST = Policy(actions=boosts, is_for_readers=True)
