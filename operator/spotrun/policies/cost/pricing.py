"""Whether every price is known, and messages that say what to do if one is not."""

from collections.abc import Iterable

from spotrun.api.field_types.bounded import MAX_MESSAGE_CHARS
from spotrun.api.names import ConditionType, Reason
from spotrun.money.price_sources import unpriced_because, unreadable
from spotrun.policies.cost.bill import Bill
from spotrun.state.conditions import state
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.view import View

_ALL_KNOWN = "every worker's price is known"


def state_pricing(view: View, status: JobState, now: Bill) -> JobState:
    """State whether the sums are complete; called only once a worker has or had a node."""
    kind = ConditionType.PRICING_COMPLETE
    if now.is_complete:
        wrong = unreadable_prices(now.running)
        message = f"the last known price is used: {wrong}" if wrong else _ALL_KNOWN
        return state(view, status, kind, Reason.TRAINING, message[:MAX_MESSAGE_CHARS], holds=True)
    if now.unpriced:
        number = f"{len(now.unpriced)} of {len(now.running)} workers"
        message = f"the price of {number} is unknown: {why_unpriced(now.unpriced)}"
    else:
        message = "workers that have ended had no known price for a time; that time is in no sum"
    return state(view, status, kind, Reason.PRICE_UNKNOWN, message[:MAX_MESSAGE_CHARS], holds=False)


def why_unpriced(workers: tuple[Worker, ...]) -> str:
    """Return what is missing for the price of the first of these workers, and where to set it."""
    node = next((worker.node for worker in workers if worker.node is not None), None)
    if node is None or node.allocatable is None:
        return "their nodes are not known yet"
    return unpriced_because(node.offering, node.stated_price)


def unreadable_prices(workers: Iterable[Worker]) -> str:
    """Return the first error in a price that a node of these workers states; empty: none."""
    nodes = (worker.node for worker in workers)
    found = (unreadable(node.stated_price, node.name) for node in nodes if node is not None)
    return next(filter(None, found), "")
