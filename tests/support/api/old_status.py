"""Statuses and definitions as earlier releases had them."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from devcluster.client import Manifest
from spotrun.api import old_names
from spotrun.api.crd import crd
from spotrun.api.names import TRAINING_JOB


def as_before(status: Manifest) -> Manifest:
    """Return a status with the names of the release before."""
    old = _renamed(deepcopy(status), old_names.STATUS)
    if "world" in old:
        old["world"] = _renamed(old["world"], old_names.WORLD)
    return old


def definition_before() -> Manifest:
    """Return the CRD of jobs that an earlier release installed."""
    old = deepcopy(crd(TRAINING_JOB))
    schema = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    status: dict[str, Any] = schema["properties"]["status"]
    world: dict[str, Any] = status["properties"]["world"]
    world["required"] = ["generation", "members", "switch", "how"]
    for model, names in ((world, old_names.WORLD), (status, old_names.STATUS)):
        del model["x-kubernetes-preserve-unknown-fields"]
        model["properties"] = _renamed(model["properties"], names)
    return old


def _renamed(fields: Manifest, names: Mapping[str, str]) -> Manifest:
    return {names.get(name, name): value for name, value in fields.items()}
