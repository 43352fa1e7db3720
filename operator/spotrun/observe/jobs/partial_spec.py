"""The readable part of a spec that cannot be read as a whole, field by field. Pure.

A mistake in one part, or a value that only a newer operator knows, must not hide that the job must
be suspended, or what it may cost.
"""

import json
from functools import cache
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from spotrun.api.spec.template import PodTemplate
from spotrun.api.spec.workers import Workers
from spotrun.api.trainingjob import TrainingJobSpec

_UNKNOWN = PodTemplate.model_validate(
    {"spec": {"containers": ({"name": "unknown", "image": "unknown"},)}}
)


def salvage(spec: bytes) -> tuple[TrainingJobSpec, bool]:
    """Return the parts that can be read, and whether the template is one of them.

    An unreadable part counts as not set: a budget then has no limit, and hours have no end.
    """
    content = json.loads(spec)
    found = _readable(TrainingJobSpec, content)
    workers = _readable(Workers, content.get("workers"))
    has_template = "template" in workers
    found["workers"] = Workers.model_construct(**{"template": _UNKNOWN, **workers})
    return TrainingJobSpec.model_construct(**found), has_template


def _readable(model: type[BaseModel], content: object) -> dict[str, Any]:
    """Return the fields of a model that can be read, by their names in Python."""
    if not isinstance(content, dict):
        return {}
    found: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        given = content.get(field.alias or name)
        if given is None:
            continue
        try:
            found[name] = _reader(model, name).validate_json(json.dumps(given))
        except ValidationError:
            continue
    return found


@cache
def _reader(model: type[BaseModel], name: str) -> TypeAdapter[Any]:
    kind: Any = model.model_fields[name].annotation
    return TypeAdapter(kind)
