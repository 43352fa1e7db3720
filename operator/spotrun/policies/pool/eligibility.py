"""The pools that can take a worker of the job at all, and why the others cannot."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from spotrun.api.capacitypool import Capacity
from spotrun.api.field_types.amounts import whole
from spotrun.api.names import INSTANCE_TYPE_LABELS, REGION_LABELS, ZONE_LABELS
from spotrun.api.spec.limits import Unpriced
from spotrun.api.spec.placement import CapacityPolicy
from spotrun.api.spec.template import PodTemplate
from spotrun.money.shares import Resources
from spotrun.state.market import PoolFacts
from spotrun.state.snapshot import JobSnapshot

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_HUNDRED = 100


@dataclass(frozen=True)
class Offers:
    """The pools that can take a worker; if there is none, `refused` says why."""

    spot: tuple[PoolFacts, ...] = ()
    stable: tuple[PoolFacts, ...] = ()  # on-demand and reserved
    refused: tuple[tuple[str, int], ...] = ()  # (why, how many pools)
    # Why no node at all may be asked for: a rule of the user or an admin that Kubernetes does not
    # know, and that nodes of the known pools would break.
    forbidden: str = ""
    # Whether only on-demand capacity may be asked for, although no on-demand pool is known: a limit
    # on the price of spot excludes known pools.
    excludes_spot: bool = False

    @property
    def why_none(self) -> str:
        """The reason why no pool can take a worker; empty if one can, or if none is known."""
        if self.spot or self.stable:
            return ""
        return "; ".join(f"{number} pools: {why}" for why, number in self.refused)


def offers(job: JobSnapshot) -> Offers:
    """Return the pools of the market that can take a worker, and why the others cannot."""
    reasons = {pool.name: _why_not(job, pool) for pool in job.market.pools}
    fit = [pool for pool in job.market.pools if not reasons[pool.name]]
    refused = Counter(filter(None, reasons.values())).most_common()
    return Offers(
        spot=tuple(pool for pool in fit if pool.capacity is Capacity.SPOT),
        stable=tuple(pool for pool in fit if pool.capacity is not Capacity.SPOT),
        refused=tuple(refused),
        forbidden="" if fit else _why_forbidden(job, refused),
        excludes_spot=not fit and any(_too_dear(job, pool) for pool in job.market.pools),
    )


def holds(node: Resources, job: JobSnapshot) -> bool:
    """Whether a node with these resources can hold a worker."""
    return not _short_of(job.requests, node)


def _why_forbidden(job: JobSnapshot, refused: list[tuple[str, int]]) -> str:
    """Return why no node is asked for if no known pool fits: an unknown pool might fit."""
    if job.spec.placement.pool_selector is not None:
        of_others = "; ".join(f"{number} pools: {why}" for why, number in refused)
        return of_others or "no CapacityPool has the labels of placement.poolSelector"
    by_rule = Counter[str]()
    for pool in job.market.pools:
        by_rule[_forbids_any(job, pool)] += 1
    return "; ".join(f"{number} pools: {why}" for why, number in by_rule.most_common() if why)


def _forbids_any(job: JobSnapshot, pool: PoolFacts) -> str:
    """Return the rule of a pool that also forbids to ask for nodes of unknown pools."""
    is_about_spot = pool.namespaces_allowed and bool(_too_dear(job, pool))
    may_go_elsewhere = job.spec.placement.capacity is CapacityPolicy.MIXED
    return "" if is_about_spot and may_go_elsewhere else _forbids(job, pool)


def _why_not(job: JobSnapshot, pool: PoolFacts) -> str:
    """Return why a pool cannot take a worker; empty if it can."""
    return (
        _forbids(job, pool)
        or _not_allowed(job, pool)
        or _of_unknown_price(job, pool)
        or _too_small(job, pool)
        or _far_from_volumes(job, pool)
        or _other_labels(job.spec.workers.template, pool)
    )


def _forbids(job: JobSnapshot, pool: PoolFacts) -> str:
    """Return the rule that forbids a pool whose nodes Kubernetes would use."""
    if not pool.namespaces_allowed:
        return f"their namespaceSelector does not allow {job.namespace}"
    return _too_dear(job, pool)


def _not_allowed(job: JobSnapshot, pool: PoolFacts) -> str:
    policy, is_spot = job.spec.placement.capacity, pool.capacity is Capacity.SPOT
    if policy is CapacityPolicy.SPOT and not is_spot:
        return "they are not spot, and placement.capacity is Spot"
    if policy is CapacityPolicy.ON_DEMAND and is_spot:
        return "they are spot, and placement.capacity is OnDemand"
    return ""


def _too_dear(job: JobSnapshot, pool: PoolFacts) -> str:
    limit, price, on_demand = (
        job.spec.placement.max_price_percent,
        pool.usd_per_hour,
        pool.on_demand_usd_per_hour,
    )
    if limit is None or price is None or on_demand is None or pool.capacity is not Capacity.SPOT:
        return ""
    if price * _HUNDRED > on_demand * limit:
        return f"they cost more than maxPricePercent, {limit} % of on-demand"
    return ""


def _of_unknown_price(job: JobSnapshot, pool: PoolFacts) -> str:
    budget = job.spec.budget
    if pool.usd_per_hour is None and budget is not None and budget.unpriced is Unpriced.REFUSE:
        return "their price is unknown, and budget.unpriced is Refuse"
    return ""


def _too_small(job: JobSnapshot, pool: PoolFacts) -> str:
    needs, has = job.requests, pool.allocatable
    if has is None:
        too_few = 0 < pool.gpus < needs.gpus
        return f"a node has fewer than {needs.gpus} GPUs" if too_few else ""
    short = _short_of(needs, has)
    return f"a node has too few {' and '.join(short)} for a worker" if short else ""


def _short_of(needs: Resources, has: Resources) -> list[str]:
    pairs = (
        ("CPU", needs.cpu, has.cpu),
        ("memory", needs.memory, has.memory),
        ("GPUs", needs.gpus, has.gpus),
    )
    return [name for name, need, there in pairs if need > there]


def _far_from_volumes(job: JobSnapshot, pool: PoolFacts) -> str:
    zones = job.volume_zones
    if zones is None or not pool.zones or not zones.isdisjoint(pool.zones):
        return ""
    if not zones:
        return "the volumes of a worker are in different zones, and no node is in all of them"
    return f"they are not in the zones of the worker's volumes: {', '.join(sorted(zones))}"


def _other_labels(template: PodTemplate, pool: PoolFacts) -> str:
    """Return how the template's node selector or affinity excludes the pool; empty if neither."""
    extra = template.spec.model_extra or {}
    labels = _labels_of(pool)
    selector = extra.get("nodeSelector")
    for key, value in (selector if isinstance(selector, dict) else {}).items():
        if key in labels and value not in labels[key]:
            return f"the template's nodeSelector requires {key}={value}"
    terms = _terms(extra)
    if terms and not any(_may_match(term, labels) for term in terms):
        return "the template's node affinity excludes them"
    return ""


def _labels_of(pool: PoolFacts) -> Mapping[str, tuple[str, ...]]:
    """Return the known labels of the pool's nodes; a label that is not listed is unknown."""
    known: dict[str, tuple[str, ...]] = {}
    for keys, values in (
        (INSTANCE_TYPE_LABELS, pool.instance_types),
        (ZONE_LABELS, pool.zones),
        (REGION_LABELS, (pool.region,) if pool.region else ()),
    ):
        if values:
            known |= dict.fromkeys(keys, values)
    return {**known, **pool.match_labels}


def _terms(extra: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: object = extra
    for key in ("affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms"):
        found = found.get(key) if isinstance(found, dict) else None
    return [term for term in found if isinstance(term, dict)] if isinstance(found, list) else []


def _may_match(term: Mapping[str, Any], labels: Mapping[str, tuple[str, ...]]) -> bool:
    wanted: Iterable[Any] = term.get("matchExpressions") or ()
    return all(_may_hold(one, labels) for one in wanted if isinstance(one, dict))


def _may_hold(wanted: Mapping[str, Any], labels: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether some node of the pool may satisfy one requirement."""
    known, values = labels.get(wanted.get("key", "")), wanted.get("values") or ()
    if known is None:
        return True  # the pool's value of this label is unknown
    match wanted.get("operator"):
        case "In":
            return any(value in values for value in known)
        case "NotIn":
            return any(value not in values for value in known)
        case "DoesNotExist":
            return False
        case "Gt" | "Lt" as operator:
            return any(_compares(value, operator, values) for value in known)
    return True


def _compares(value: str, operator: str, values: Any) -> bool:  # noqa: ANN401 - a user's JSON
    number, limit = whole(value), whole(str(next(iter(values), "")))
    if number is None or limit is None:
        return False
    return number > limit if operator == "Gt" else number < limit
