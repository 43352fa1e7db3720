"""What steps have sent between zones: an estimate beside a job's cost, and never part of it."""

from decimal import Decimal

from spotrun.api.cost import Accumulators
from spotrun.api.field_types.amounts import Amount
from spotrun.money.transfer import Place, ring_usd
from spotrun.money.units import NO_USD, Usd
from spotrun.policies.cost.bill import to_show
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.view import View
from spotrun.state.world_members import members

_MOST_BYTES_PER_SECOND = 400 * 10**9
"""Steps and bytes are counted by those who send them; no node sends more (3,200 Gbit/s)."""


def transferred(
    view: View, status: JobState, steps: int, elapsed_seconds: Decimal
) -> dict[str, object]:
    """Add what so many steps have sent, done twice or not: traffic is paid each time."""
    sums, sent = status.accumulators or Accumulators(), view.job.sync_bytes_per_step
    workers = view.job.spec.workers
    if sent is None or steps == 0:
        return {}
    num_bytes = min(steps * int(sent), int(elapsed_seconds * _MOST_BYTES_PER_SECOND))
    # Where several workers hold one copy of the model, each adds its part up with its likes.
    places, apart = [_place(worker) for worker in members(view, status)], workers.per_replica
    rings = [places[first::apart] for first in range(apart)]
    apiece = view.job.processes
    usd = sum((ring_usd(ring, len(ring) * apiece, num_bytes) for ring in rings), NO_USD)
    return {"transfer_usd": (Usd.of(sums.transfer_usd) + usd).amount} if usd else {}


def transfer_shown(status: JobState) -> Amount | None:
    """What of a job's cost says what its traffic may have cost; None: nothing that is known."""
    sent = status.accumulators.transfer_usd if status.accumulators is not None else None
    return to_show(Usd.of(sent)) if sent is not None else None


def _place(worker: Worker) -> Place:
    node = worker.node
    return Place(node.region, node.zone) if node is not None else Place("", "")
