"""Kueue's objects, decoded only in the fields that are read somewhere."""

from typing import Any

import msgspec

from spotrun.api.names import ANNOTATION_ASKED, ANNOTATION_PRIORITY_BOOST, LABEL_JOB
from spotrun.kube.resource import Meta, Resource
from spotrun.observe.kube_objects import OwnedMeta
from spotrun.state.queue import ANY_NODES, Flavor, Workload

GROUP = "kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
"""The newest comes first; the fields that are used are the same in both."""


def workloads(version: str) -> Resource:
    """Return the kind Workload in one version of its API."""
    return Resource(GROUP, version, "workloads")


class _Annotations(msgspec.Struct, frozen=True):
    asked: str = msgspec.field(default="", name=str(ANNOTATION_ASKED))
    boost: str = msgspec.field(default="", name=str(ANNOTATION_PRIORITY_BOOST))


class _Labels(msgspec.Struct, frozen=True):
    job: str = msgspec.field(default="", name=str(LABEL_JOB))


class WorkloadMeta(OwnedMeta, frozen=True, rename="camel"):
    """A Workload's metadata."""

    labels: _Labels = _Labels()
    annotations: _Annotations = _Annotations()


class _PodSet(msgspec.Struct, frozen=True, rename="camel"):
    count: int = 1
    min_count: int | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    pod_sets: tuple[_PodSet, ...] = ()
    active: bool = True
    priority: int | None = None


class _Assignment(msgspec.Struct, frozen=True):
    flavors: dict[str, str] = {}
    count: int | None = None


class _Admission(msgspec.Struct, frozen=True, rename="camel"):
    pod_set_assignments: tuple[_Assignment, ...] = ()


class _Reclaimable(msgspec.Struct, frozen=True):
    count: int = 0


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""


class _PodSetUpdate(msgspec.Struct, frozen=True, rename="camel"):
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()


class _Check(msgspec.Struct, frozen=True, rename="camel"):
    pod_set_updates: tuple[_PodSetUpdate, ...] = ()


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    admission: _Admission | None = None
    conditions: tuple[_Condition, ...] = ()
    reclaimable_pods: tuple[_Reclaimable, ...] = ()
    admission_checks: tuple[_Check, ...] = ()


class WorkloadObject(msgspec.Struct, frozen=True):
    """A Workload: a request for workers."""

    metadata: WorkloadMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()

    def condition(self, kind: str) -> _Condition | None:
        """Return a condition that is True."""
        found = (one for one in self.status.conditions if one.type == kind)
        return next((one for one in found if one.status == "True"), None)


class _FlavorSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_labels: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()


class FlavorObject(msgspec.Struct, frozen=True):
    """A ResourceFlavor: nodes of one kind."""

    metadata: Meta
    spec: _FlavorSpec = _FlavorSpec()


class PriorityObject(msgspec.Struct, frozen=True):
    """A WorkloadPriorityClass."""

    metadata: Meta
    value: int = 0


def read(one: WorkloadObject, flavors: dict[str, FlavorObject], asked: str, owner: str) -> Workload:
    """Return what a Workload asks for, and what Kueue has answered; `owner` is the job's UID."""
    pod_set = one.spec.pod_sets[0] if one.spec.pod_sets else _PodSet()
    evicted, reserved = one.condition("Evicted"), one.condition("QuotaReserved")
    assigned = one.status.admission.pod_set_assignments if one.status.admission else ()
    admitted = sum(pod_set.count if part.count is None else part.count for part in assigned)
    meta = one.metadata
    return Workload(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        number=_number(meta.name),
        count=pod_set.count,
        least=pod_set.min_count,
        asks_as_now=meta.annotations.asked.partition(".")[0] == asked,
        priority=one.spec.priority,
        boost=_boost(meta.annotations.boost),
        is_owned=meta.owner_uid == owner,
        is_active=one.spec.active,
        is_reserved=reserved is not None,
        is_admitted=one.condition("Admitted") is not None,
        is_ready=one.condition("PodsReady") is not None,
        admitted=admitted,
        given_back=sum(part.count for part in one.status.reclaimable_pods),
        evicted=evicted.reason if evicted is not None else "",
        words=_words(one),
        is_finished=one.condition("Finished") is not None,
        flavor=_flavor(one, assigned, flavors),
    )


def _number(name: str) -> int:
    number = name.rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def _boost(text: str) -> int | None:
    """Read a number that may have been written by hand."""
    return int(text) if text.removeprefix("-").isdecimal() else None


def _words(one: WorkloadObject) -> str:
    by_type = {condition.type: condition for condition in one.status.conditions}
    kinds = ("Evicted", "QuotaReserved", "Admitted")
    found = (by_type[kind] for kind in kinds if kind in by_type)
    waits = (c for c in found if c.message and (c.status == "False") is not (c.type == "Evicted"))
    return next((c.message for c in waits), "")


def _flavor(
    one: WorkloadObject, assigned: tuple[_Assignment, ...], flavors: dict[str, FlavorObject]
) -> Flavor:
    """Return the nodes that the flavors of all resources and the admission checks select."""
    names = dict.fromkeys(name for part in assigned for name in part.flavors.values())
    known = [flavors[name].spec for name in names if name in flavors]
    added = [update for check in one.status.admission_checks for update in check.pod_set_updates]
    if not known and not added:
        return ANY_NODES
    labels: dict[str, str] = {}
    for flavor in known:
        labels |= flavor.node_labels
    for update in added:
        labels |= update.node_selector
    tolerations = [one for flavor in known for one in flavor.tolerations]
    tolerations += [one for update in added for one in update.tolerations]
    return Flavor(labels, tuple(tolerations))
