"""The nodes for the workers of a replica: together, and where its other workers are.

A missing worker of a replica is asked from the zone of the others, and on their rack if the job's
topology is a rack. A new replica goes where there is room for all of it. If it is not known where
its first worker will be, its pods have an affinity to each other.
"""

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from spotrun.api.capacitypool import Capacity
from spotrun.api.names import REGION_LABELS, ZONE_LABELS
from spotrun.api.spec.placement import Zones
from spotrun.policies.placement.pool_choice import (
    Shares,
    acceptable,
    is_dry,
    places,
    room_left,
)
from spotrun.policies.placement.ranking import Ranked
from spotrun.state.actions import Near, Placed
from spotrun.state.replicas import Part, by_replica
from spotrun.state.snapshot import Node, Worker
from spotrun.state.view import View


@dataclass(frozen=True)
class Home:
    """The place in which most workers of a replica are."""

    zone: str  # "": unknown
    near: Near


@dataclass(frozen=True)
class Options:
    """The pools of one kind of capacity that can take a worker, the best first."""

    ranked: Sequence[Ranked]
    capacity: Capacity
    taken: Shares  # how much present and just placed workers use of the job's limits


@dataclass(frozen=True)
class Away:
    """The replicas that do not go to their usual place, because there is no capacity there."""

    replicas: frozenset[int] = frozenset()  # their missing workers come from other zones
    zones: frozenset[str] = frozenset()  # those that whole replicas leave


NOT_AWAY = Away()


def homes(view: View) -> dict[int, Home]:
    """Return where each replica is; replicas without any placed worker are left out."""
    return view.once_unlimited("homes", (), lambda: _homes(view))


def topology_value(view: View, node: Node) -> str:
    """Return the node's value of the label by which replicas stay together."""
    key = view.job.spec.placement.topology.key
    return node.zone if key in ZONE_LABELS else node.labels.get(key, "")


def in_zone(ranked: Sequence[Ranked], zone: str) -> list[Ranked]:
    """Return the pools that may have nodes in a zone, without their other zones."""
    if not zone:
        return list(ranked)
    inside = (one for one in ranked if not one.pool.zones or zone in one.pool.zones)
    return [replace(one, pool=replace(one.pool, zones=(zone,))) for one in inside]


def places_by_replica(
    view: View, options: Options, parts: Sequence[Part], away: Away = NOT_AWAY
) -> list[tuple[Part, Placed]]:
    """Return the places from which these parts are asked; fewer if limits allow no more.

    Workers of replicas that are `away` come from elsewhere.
    """
    groups: dict[int | None, list[Part]] = {}
    for part in parts:
        groups.setdefault(part.replica, []).append(part)
    found: list[tuple[Part, Placed]] = []
    for replica, group in groups.items():
        number, home = len(group), homes(view).get(replica) if replica is not None else None
        if replica is None:
            made = _places(view, options, acceptable(view, list(options.ranked)), number)
        elif home is None:
            made = _in_new_place(view, _outside(options, away.zones), number)
        elif replica in away.replicas:
            made = _in_new_place(view, _outside(options, {home.zone}), number)
        else:
            made = _at_home(view, options, home, number)
        found += zip(group, made, strict=False)
    return found


def _homes(view: View) -> dict[int, Home]:
    found = {}
    for replica, members in by_replica(view.staying, view.job.effective_workers).items():
        values = Counter(topology_value(view, w.node) for w in members if w.node is not None)
        values.pop("", None)
        if values:
            value = values.most_common(1)[0][0]
            found[replica] = _home(view, members, value)
    return found


def _home(view: View, members: Sequence[Worker], value: str) -> Home:
    nodes = [worker.node for worker in members if worker.node is not None]
    first = next(node for node in nodes if topology_value(view, node) == value)
    topology = view.job.spec.placement.topology
    keys = ZONE_LABELS if topology.key in ZONE_LABELS else (topology.key,)
    key = next((key for key in keys if key in first.labels), topology.key)
    zone = "" if topology.key in REGION_LABELS else first.zone
    return Home(zone, Near(key, value, topology.is_required))


def _at_home(view: View, options: Options, home: Home, number: int) -> list[Placed]:
    """Ask where the others are, even if a node was just lost there, to keep replicas together."""
    inside = in_zone(options.ranked, home.zone)
    there = acceptable(view, [one for one in inside if not is_dry(view, one.pool)] or inside)
    if not there:  # no such pool is known, but an autoscaler may know one
        return [Placed(capacity=options.capacity, near=home.near)] * number
    found = _places(view, options, there, number)
    return [replace(one, zone=_pin(view, one, home.zone), near=home.near) for one in found]


def _in_new_place(view: View, options: Options, number: int) -> list[Placed]:
    open_ones = acceptable(view, list(options.ranked))
    zone = _zone_for(view, open_ones, number, options.taken)
    found = _places(view, options, in_zone(open_ones, zone), number)
    return [replace(one, zone=_pin(view, one, zone)) for one in found]


def _outside(options: Options, zones: AbstractSet[str]) -> Options:
    """Return the pools of other zones, if there are any."""
    others = [one for one in options.ranked if zones.isdisjoint(one.pool.zones)]
    return replace(options, ranked=others or options.ranked)


def _places(view: View, options: Options, ranked: list[Ranked], number: int) -> list[Placed]:
    return places(view, ranked, options.capacity, number, options.taken)


def _zone_for(view: View, ranked: Sequence[Ranked], number: int, taken: Shares) -> str:
    """Return the zone that so many workers are asked from together.

    This is the first zone with room for all on its nodes, or else for some of them. If no zone has
    room, each of the pools may create the nodes: autoscalers decide which one does so first.
    """
    zones = list(dict.fromkeys(zone for one in ranked for zone in one.pool.zones))
    placement = view.job.spec.placement
    if not zones or placement.topology.key in REGION_LABELS or placement.zones is Zones.SINGLE:
        return ""
    room, slots = Counter[str](), room_left(view, taken)
    for one in ranked:
        if len(one.pool.zones) == 1:
            room[one.pool.zones[0]] += max(slots[one.pool.name], 0)
    within = zones
    if taken.are_limited:
        excess = {zone: taken.zone_excess(zone, number) for zone in zones}
        within = [zone for zone in zones if excess[zone] == min(excess.values())]
    best = max(within, key=lambda zone: min(room[zone], number))  # the first of equal ones
    return best if room[best] or taken.are_limited else ""


def _pin(view: View, place: Placed, zone: str) -> str:
    """Return the zone to require: needed if a pool spans several zones."""
    pools = (view.job.market.pool(name) for name in place.required)
    spans = any(pool is not None and len(pool.zones) != 1 for pool in pools)
    return zone if spans and zone else place.zone
