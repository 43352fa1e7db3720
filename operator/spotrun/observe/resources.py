"""Resources of pods and nodes as numbers: Kubernetes writes them as text. Pure."""

import functools
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from spotrun.api.field_types.amounts import Quantity
from spotrun.api.spec.template import PodTemplate
from spotrun.money.shares import Resources, total
from spotrun.observe.kube_objects import ContainerSpec, PodObject
from spotrun.observe.template_defaults import GPUS, NVIDIA_SLICE

_DEVICES_DIGITS = 4  # a claim is for 32 devices at most

_LEAST, _MOST = Decimal("1e-9"), Decimal(2**63 - 1)
"""Kubernetes rounds smaller amounts up to the first, and larger ones down to the second; a template
keeps what its author wrote."""


def resources_of(amounts: Mapping[str, object]) -> Resources:
    """Return CPU, memory and GPUs of a map of quantities; an unreadable one counts as zero."""
    return Resources(
        cpu=_value(str(amounts.get("cpu", "0"))),
        memory=_value(str(amounts.get("memory", "0"))),
        gpus=sum(int(_value(str(many))) for name, many in amounts.items() if is_gpu(name)),
    )


def is_gpu(resource: str) -> bool:
    """Whether a resource is a device that training processes use."""
    return resource in GPUS or resource.startswith(NVIDIA_SLICE)


def requests_of(pod: PodObject) -> Resources:
    """Return the resources that the scheduler reserves for a pod, added up as Kubernetes does."""
    spec = pod.spec
    sidecars = [one for one in spec.init_containers if one.restart_policy == "Always"]
    running = total(map(_asked, (*spec.containers, *sidecars)))
    inits = (one for one in spec.init_containers if one.restart_policy != "Always")
    asked = total([_most([running, *map(_asked, inits)]), resources_of(spec.overhead)])
    return replace(asked, claimed=devices_of(pod))


def devices_of(pod: PodObject) -> int:
    """Return the devices that a worker claims by DRA, as the operator noted on its pod."""
    text = pod.metadata.annotations.devices
    return int(text) if text.isdecimal() and len(text) <= _DEVICES_DIGITS else 0


def requests_of_template(template: PodTemplate) -> Resources:
    """Return the requests of a pod that is not created yet; a limit counts as the request."""
    spec = template.spec
    inits = (spec.model_extra or {}).get("initContainers") or ()
    running = total(_wanted(one.model_extra or {}) for one in spec.containers)
    return _most([running, *(_wanted(one) for one in inits if isinstance(one, dict))])


def _asked(container: ContainerSpec) -> Resources:
    return resources_of(container.resources.requests)


def _wanted(container: Mapping[str, Any]) -> Resources:
    given = container.get("resources")
    given = given if isinstance(given, dict) else {}
    limits, requests = given.get("limits"), given.get("requests")
    return resources_of(
        {
            **(limits if isinstance(limits, dict) else {}),
            **(requests if isinstance(requests, dict) else {}),
        }
    )


def _most(many: list[Resources]) -> Resources:
    return Resources(
        max(one.cpu for one in many),
        max(one.memory for one in many),
        max(one.gpus for one in many),
    )


@functools.lru_cache(maxsize=4096)  # a cluster uses few different ones, again and again
def _value(text: str) -> Decimal:
    try:
        amount = Quantity(text).value
    except ValueError:
        return Decimal(0)
    return min(max(amount, _LEAST), _MOST) if amount else amount
