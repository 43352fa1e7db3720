"""Statuses and definitions as earlier releases had them."""

from copy import deepcopy
from typing import Any

from devcluster.client import Manifest
from spotrun.api import old_names
from spotrun.api.crd import crd
from spotrun.api.names import TRAINING_JOB


def as_before(status: Manifest) -> Manifest:
    """Return a status with the names of the release before."""
    old = deepcopy(status)
    if "world" in old:
        names = old_names.WORLD
        old["world"] = {names.get(name, name): value for name, value in old["world"].items()}
    return old


def definition_before() -> Manifest:
    """Return the CRD of jobs that an earlier release installed."""
    old = deepcopy(crd(TRAINING_JOB))
    schema = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    world: dict[str, Any] = schema["properties"]["status"]["properties"]["world"]
    del world["x-kubernetes-preserve-unknown-fields"]
    names = old_names.WORLD
    world["properties"] = {names.get(name, name): one for name, one in world["properties"].items()}
    world["required"] = ["generation", "members", "switch", "how"]
    return old
