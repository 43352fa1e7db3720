"""The pool that a node belongs to, and the names of discovered pools. Pure."""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256

from spotrun.api.capacitypool import Capacity, CapacityPoolSpec
from spotrun.api.field_types.bounded import LabelValue
from spotrun.api.names import INSTANCE_TYPE_LABELS, ZONE_LABELS
from spotrun.observe.nodes.cloud_labels import (
    Identity,
    Labels,
    capacity_mark,
    capacity_of,
    instance_type_of,
    region_of,
    stated_capacity,
    zone_of,
)

_MOST_CHARACTERS = 63  # a pool's name is also the value of a label
_HASH = 6
_WORDS = {Capacity.SPOT: "spot", Capacity.ON_DEMAND: "on-demand", Capacity.RESERVED: "reserved"}


def belongs(spec: CapacityPoolSpec, labels: Labels) -> bool:
    """Whether a node with these labels is in a declared pool."""
    selector = spec.node_selector or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    return (
        _is_among(instance_type_of(labels), spec.instance_types)
        and _is_among(zone_of(labels), spec.zones)
        and region_of(labels) in {"", spec.region or region_of(labels)}
        and _has_capacity(spec, labels)
    )


def declared_for(pools: Iterable[tuple[str, CapacityPoolSpec]], labels: Labels) -> str | None:
    """Return the first declared pool, in the order of names, that a node belongs to."""
    return min((name for name, spec in pools if belongs(spec, labels)), default=None)


def pool_name(identity: Identity) -> str:
    """Return the name of a discovered pool, such as spot-g5-xlarge-us-east-1b."""
    words = (_WORDS[identity.capacity], identity.instance_type, identity.zone)
    name = "-".join(filter(None, map(_plain, words)))
    return name if len(name) <= _MOST_CHARACTERS else _with_hash(name, identity)


def other_name(identity: Identity) -> str:
    """Return the name of a discovered pool if another pool already has the plain name."""
    return _with_hash(pool_name(identity), identity)


def discovered_spec(identity: Identity, labels: Labels) -> CapacityPoolSpec:
    """Return the spec of the pool of a node that no declared pool selects."""
    return CapacityPoolSpec(
        instance_types=(identity.instance_type,),
        zones=(identity.zone,) if identity.zone else None,
        region=region_of(labels) or None,
        capacity=identity.capacity,
        node_selector={k: LabelValue(v) for k, v in capacity_mark(labels).items()} or None,
    )


def match_labels(spec: CapacityPoolSpec, labels: Labels) -> Mapping[str, tuple[str, ...]]:
    """Return the labels that select a pool's nodes; `labels` are those of one node, if any."""
    asked: dict[str, tuple[str, ...]] = {
        key: (value,) for key, value in (spec.node_selector or {}).items()
    }
    if spec.instance_types:
        asked[INSTANCE_TYPE_LABELS[0]] = spec.instance_types
    if spec.zones:
        asked[ZONE_LABELS[0]] = spec.zones
    return asked | {key: (value,) for key, value in capacity_mark(labels).items()}


def _has_capacity(spec: CapacityPoolSpec, labels: Labels) -> bool:
    """Whether a node has the pool's capacity type; a pool with a selector may state its own."""
    if stated_capacity(labels) is None and spec.node_selector:
        return True
    return capacity_of(labels) is spec.capacity


def _is_among(value: str, wanted: tuple[str, ...] | None) -> bool:
    return not wanted or value in wanted


def _plain(word: str) -> str:
    return re.sub("[^a-z0-9]+", "-", word.lower()).strip("-")


def _with_hash(name: str, identity: Identity) -> str:
    text = f"{identity.capacity.value}/{identity.instance_type}/{identity.zone}"
    tail = sha256(text.encode()).hexdigest()[:_HASH]
    return f"{name[: _MOST_CHARACTERS - _HASH - 1].rstrip('-')}-{tail}"
