"""The traffic of steps between zones: an estimate shown beside a job's cost, never part of it."""

from dataclasses import replace
from decimal import Decimal

from spotrun.money.other_costs.transfer import Place, ring_usd
from spotrun.money.units import NO_USD
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.stored.cost import Accumulators
from spotrun.state.view import View
from spotrun.state.world_members import world_members

_MOST_BYTES_PER_SECOND = 400 * 10**9
"""The workers themselves report steps and bytes; no node sends more than this (3,200 Gbit/s)."""


def with_transfer(
    sums: Accumulators, view: View, status: JobState, steps: int, elapsed_seconds: Decimal
) -> Accumulators:
    """Add the traffic of so many steps, also of repeated ones: traffic is paid each time."""
    sent, workers = view.job.sync_bytes_per_step, view.job.spec.workers
    if sent is None or steps == 0:
        return sums
    num_bytes = min(steps * int(sent), int(elapsed_seconds * _MOST_BYTES_PER_SECOND))
    # If several workers hold one copy of the model, each part has a ring of its own.
    places, apart = [_place(worker) for worker in world_members(view, status)], workers.per_replica
    rings = [places[first::apart] for first in range(apart)]
    apiece = view.job.processes
    usd = sum((ring_usd(ring, len(ring) * apiece, num_bytes) for ring in rings), NO_USD)
    if not usd:
        return sums
    return replace(sums, transfer_usd=((sums.transfer_usd or NO_USD) + usd).as_stored)


def _place(worker: Worker) -> Place:
    node = worker.node
    return Place(node.region, node.zone) if node is not None else Place("", "")
