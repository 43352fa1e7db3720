"""Whether a job's workers can run on a node, according to its template. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from spotrun.api.capacitypool import Toleration
from spotrun.api.field_types.amounts import whole
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.kube.lru_map import LruMap
from spotrun.money.shares import NOTHING, Resources
from spotrun.observe.kube_objects import Taint
from spotrun.observe.nodes.cloud_labels import SPOT_TAINTS, Labels
from spotrun.observe.resources import requests_of_template
from spotrun.observe.template_defaults import gpu_limits

MOST_TEMPLATES = 10_000
_KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})

Expression = tuple[str, str, tuple[str, ...]]
"""Key, operator, values."""


@dataclass(frozen=True)
class Demand:
    """The demands of a template on a node: one of `terms` must hold, with all its expressions."""

    requests: Resources = NOTHING
    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[Expression, ...], ...] = ()
    tolerations: tuple[tuple[str, str, str, str], ...] = ()  # key, operator, value, effect


def demand_of(spec: TrainingJobSpec) -> Demand:
    """Return the demands of one worker."""
    template = spec.workers.template
    given: Mapping[str, Any] = template.spec.model_extra or {}
    known = (*SPOT_TAINTS, *gpu_limits(template))
    return Demand(
        requests=requests_of_template(template),
        selector=tuple(sorted((str(k), str(v)) for k, v in _map(given, "nodeSelector").items())),
        terms=tuple(_required_terms(given)),
        tolerations=(
            *(_toleration(one) for one in _list(given, "tolerations")),
            *((key, "Exists", "", "") for key in known),
        ),
    )


class Demands:
    """The demands of templates, by their hash: jobs are examined more often than they change."""

    def __init__(self) -> None:
        self._known = LruMap[str, Demand](MOST_TEMPLATES)

    def of(self, spec: TrainingJobSpec, template: str) -> Demand:
        """Return the demands of one worker whose template has this hash."""
        known = self._known.get(template)
        if known is None:
            known = self._known[template] = demand_of(spec)
        return known


def suits(
    demand: Demand,
    labels: Labels,
    taints: Iterable[Taint] = (),
    further: Iterable[Toleration] = (),
) -> bool:
    """Whether a node's labels and taints let the worker in, regardless of room."""
    if any(labels.get(key) != value for key, value in demand.selector):
        return False
    if demand.terms and not any(_all_hold(term, labels) for term in demand.terms):
        return False
    extra = [
        (one.key or "", str(one.operator), one.value or "", str(one.effect or ""))
        for one in further
    ]
    return all(
        any(_tolerates(one, taint) for one in (*demand.tolerations, *extra))
        for taint in taints
        if taint.effect in _KEEPS_AWAY
    )


def _required_terms(given: Mapping[str, Any]) -> Iterable[tuple[Expression, ...]]:
    required = _map(
        _map(_map(given, "affinity"), "nodeAffinity"),
        "requiredDuringSchedulingIgnoredDuringExecution",
    )
    for term in _list(required, "nodeSelectorTerms"):
        yield tuple(
            (
                str(one.get("key", "")),
                str(one.get("operator", "")),
                tuple(str(value) for value in one.get("values") or ()),
            )
            for one in _list(term, "matchExpressions")
        )


def _all_hold(term: tuple[Expression, ...], labels: Labels) -> bool:
    """Whether all of a term holds; an empty term matches nothing, as in Kubernetes."""
    return bool(term) and all(_holds(one, labels) for one in term)


def _holds(expression: Expression, labels: Labels) -> bool:
    key, operator, values = expression
    has = labels.get(key)
    match operator:
        case "In":
            return has is not None and has in values
        case "NotIn":
            return has is None or has not in values
        case "Exists":
            return has is not None
        case "DoesNotExist":
            return has is None
        case "Gt" | "Lt":
            return _compares(has, operator, values)
        case _:
            return False


def _compares(has: str | None, operator: str, values: tuple[str, ...]) -> bool:
    if has is None or len(values) != 1:
        return False
    number, limit = whole(has), whole(values[0])
    if number is None or limit is None:
        return False
    return number > limit if operator == "Gt" else number < limit


def _toleration(given: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return (
        str(given.get("key") or ""),
        str(given.get("operator") or "Equal"),
        str(given.get("value") or ""),
        str(given.get("effect") or ""),
    )


def _tolerates(toleration: tuple[str, str, str, str], taint: Taint) -> bool:
    key, operator, value, effect = toleration
    if effect and effect != taint.effect:
        return False
    if not key:
        return operator == "Exists"
    return key == taint.key and (operator == "Exists" or value == taint.value)


def _map(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = given.get(name)
    return found if isinstance(found, dict) else {}


def _list(given: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = given.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
