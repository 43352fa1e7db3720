"""Nodes with room that are left out because of their zone: why, until when, and how to change it.

A user who sees a worker wait beside a free node does not know that traffic between zones counts.
"""

from collections.abc import Iterable

from spotrun.api.spec.placement import CapacityPolicy, Zones
from spotrun.policies.deadline.course import course
from spotrun.policies.placement.pool_choice import (
    acceptable,
    below_on_demand,
    to_be_had,
    without_traffic,
)
from spotrun.policies.placement.ranking import Ranked, main_zone, rank, whereabouts
from spotrun.policies.placement.supply import offered, staying_workers, supply
from spotrun.state.job_state import JobState
from spotrun.state.view import View


def why_left_out(view: View, status: JobState, size: int) -> str:
    """Return why the best of these nodes is left out; empty if none is left out."""
    now = staying_workers(view)
    if not now.waiting_for_spot or view.job.spec.placement.zones is Zones.ANY:
        return ""
    new = size - now.num_placed
    available = supply(view, status, new)
    asked = {name for worker in now.waiting_for_spot for name in worker.pod.pools}
    asked |= {one.pool.name for one in acceptable(view, list(available.spot))}
    ranked = rank(view, status, offered(view).spot, new)
    left = [one for one in ranked if one.pool.free_slots > 0 and one.pool.name not in asked]
    if view.job.spec.placement.zones is Zones.SINGLE:
        words = map(_in_words_of_single, _outside(view, ranked, left))
    else:
        free = {one.pool.name for one in _if_traffic_were_free(view, ranked, available.stable)}
        words = map(_in_words_of_auto, (one for one in left if one.pool.name in free))
    why = next(words, "")
    return f"{why}{_what_follows(view, status)}" if why else ""


def _outside(view: View, ranked: list[Ranked], left: Iterable[Ranked]) -> Iterable[Ranked]:
    home = main_zone(view, ranked)
    return (one for one in left if home not in one.pool.zones and to_be_had(view, one.pool))


def _if_traffic_were_free(
    view: View, ranked: Iterable[Ranked], stable: Iterable[Ranked]
) -> list[Ranked]:
    """The pools that would be asked if traffic between zones cost nothing."""
    rivals = [one for one in stable if to_be_had(view, one.pool)]
    return acceptable(view, below_on_demand(view, list(map(without_traffic, ranked)), rivals))


def _in_words_of_auto(one: Ranked) -> str:
    score = one.score
    return (
        f"{whereabouts(one)} has room at ${score.usd_per_hour:.2f}/h, but "
        f"${score.transfer_usd_per_hour:.2f}/h of traffic between zones would make it more "
        "expensive than on-demand: to use it, set placement.zones to Any"
    )


def _in_words_of_single(one: Ranked) -> str:
    price = one.score.usd_per_hour
    return f"{whereabouts(one)} has room at ${price:.2f}/h, but placement.zones is Single"


def _what_follows(view: View, status: JobState) -> str:
    placement = view.job.spec.placement
    if placement.capacity is CapacityPolicy.SPOT:
        return "; the job waits for spot in its own zone, because placement.capacity is Spot"
    if course(view, status) is not None:
        return "; the operator uses on-demand as soon as the deadline needs it"
    after = placement.fallback_after
    return f"; the operator uses on-demand after {after} without spot (placement.fallbackAfter)"
