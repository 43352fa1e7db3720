"""Jobs whose workers cost something, as the meter and the bill see them."""

from spotrun.api.cost import Accumulators, Cost
from spotrun.state.actions import Decision
from tests.support.jobs.builders import JobBuilder, a_job
from tests.support.jobs.stored_state import cost_of, sums_of
from tests.support.money.priced_nodes import at_work

DUE = {"written_seconds": 91.0}


def a_metered_job(*worker_ids: int, **worker: object) -> JobBuilder:
    """Return a job of workers that cost a dollar an hour each, and have had a node for one."""
    return at_work(a_job(max(len(worker_ids), 1)), *worker_ids, **worker).with_facts(**DUE)  # type: ignore[arg-type]


def sums(decision: Decision) -> Accumulators:
    """Return the exact sums, as they are stored."""
    return sums_of(decision.status)


def cost(decision: Decision) -> Cost:
    """Return the cost that is shown."""
    return cost_of(decision.status)


def placed_pod() -> dict[str, object]:
    """Return the fields of a pod that has had a node for an hour."""
    worker = at_work(a_job(1), 0).workers[0].pod
    return {name: getattr(worker, name) for name in ("requests", "scheduled_at", "created_at")}
