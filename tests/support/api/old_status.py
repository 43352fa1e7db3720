"""Statuses and definitions as earlier releases had them."""

from collections.abc import Mapping
from copy import deepcopy

from devcluster.client import Manifest
from spotrun.api import old_names
from spotrun.api.crd import crd
from spotrun.api.names import TRAINING_JOB

RENAMED = {
    "": old_names.STATUS,
    "world": old_names.WORLD,
    "restarts": old_names.RESTARTS,
    "restarts.joiningWorkers.held": old_names.HELD_BACK,
    "accumulators": old_names.ACCUMULATORS,
}
"""The names of fields and those that they had before, by the path of what has them."""


def as_before(status: Manifest) -> Manifest:
    """Return a status with the names of the release before."""
    old = _renamed(deepcopy(status), old_names.STATUS)
    if "world" in old:
        old["world"] = _renamed(old["world"], old_names.WORLD)
    if "accumulators" in old:
        old["accumulators"] = _renamed(old["accumulators"], old_names.ACCUMULATORS)
    if "restarts" in old:
        joining = old["restarts"].get("joiningWorkers", {})
        if "held" in joining:
            joining["held"] = [_renamed(one, old_names.HELD_BACK) for one in joining["held"]]
        old["restarts"] = _renamed(old["restarts"], old_names.RESTARTS)
    return old


def definition_before() -> Manifest:
    """Return the CRD of jobs that an earlier release installed."""
    old = deepcopy(crd(TRAINING_JOB))
    models = renamed_models(old)
    models["world"]["required"] = ["generation", "members", "switch", "how"]
    for path, names in RENAMED.items():
        model = models[path]
        fields = model["properties"].items()
        of_today = {name: one for name, one in fields if name not in names.values()}
        model["properties"] = _renamed(of_today, names)
    return old


def renamed_models(definition: Manifest) -> dict[str, Manifest]:
    """Return the schemas of the parts of a status that have renamed fields, by their paths."""
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    status: Manifest = schema["properties"]["status"]
    fields = status["properties"]
    held = fields["restarts"]["properties"]["joiningWorkers"]["properties"]["held"]
    return {
        "": status,
        "world": fields["world"],
        "restarts": fields["restarts"],
        "restarts.joiningWorkers.held": held["items"],
        "accumulators": fields["accumulators"],
    }


def _renamed(fields: Manifest, names: Mapping[str, str]) -> Manifest:
    return {names.get(name, name): value for name, value in fields.items()}
