"""Strict reading of manifests: an error names the field, what is wrong, and what to try."""

import difflib
import functools
import json
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from spotrun.api.capacitypool import CapacityPool
from spotrun.api.model import Model
from spotrun.api.names import API_VERSION, CAPACITY_POOL, SPEND_LIMIT, TRAINING_JOB, TUNING_JOB
from spotrun.api.schemas.structural import JsonSchema, structural
from spotrun.api.spec.spend_limit import SpendLimit
from spotrun.api.trainingjob import TrainingJob
from spotrun.api.tuning.tuningjob import TuningJob

# The API server's own words, so that one search finds both.
_WORDS = {
    "missing": "Required value",
    "enum": "Unsupported value: {given}: expected {expected}",
    "too_long": "Too many: must have at most {max_length} items",
    "too_short": "should have at least {min_length} items",
    "string_too_long": "Too long: may not be more than {max_length} bytes",
    "string_too_short": "should be at least {min_length} chars long",
    "string_type": "must be of type string",
    "int_type": "must be of type integer",
    "int_from_float": "must be of type integer",
    "bool_type": "must be of type boolean",
    "tuple_type": "must be of type array",
    "dict_type": "must be of type object",
    "model_type": "must be of type object",
}
_Kind = TypeVar("_Kind", bound=Model)


def load(manifest: dict[str, Any]) -> TrainingJob | CapacityPool | TuningJob | SpendLimit:
    """Return the object a manifest describes; a ValueError names every field that is wrong."""
    kind, version = manifest.get("kind"), manifest.get("apiVersion")
    if version != API_VERSION:
        raise ValueError(f"apiVersion is {version!r}; spotrun reads {API_VERSION}")
    if kind == TRAINING_JOB:
        return _validated(TrainingJob, manifest)
    if kind == CAPACITY_POOL:
        return _validated(CapacityPool, manifest)
    if kind == TUNING_JOB:
        return _validated(TuningJob, manifest)
    if kind == SPEND_LIMIT:
        return _validated(SpendLimit, manifest)
    known = f"{TRAINING_JOB}, {CAPACITY_POOL}, {TUNING_JOB} and {SPEND_LIMIT}"
    raise ValueError(f"kind is {kind!r}; spotrun reads {known}")


def _validated(model: type[_Kind], manifest: dict[str, Any]) -> _Kind:
    schema = _schema(model)
    text = json.dumps(_without_nulls(manifest, schema))
    try:
        # As JSON: there an array may become a tuple and a string an enum; the rest stays strict.
        return model.model_validate_json(text, by_alias=True, by_name=False)
    except ValidationError as error:
        raise ValueError("\n".join(_line(found, schema) for found in error.errors())) from None


@functools.cache
def _schema(model: type[Model]) -> JsonSchema:
    return structural(model.model_json_schema(by_alias=True))


def _without_nulls(value: object, schema: JsonSchema) -> object:
    """Remove nulls from declared fields, as the API server does; in other fields they are kept."""
    match value:
        case dict(fields) if "properties" in schema:
            known = schema["properties"]
            return {
                name: _without_nulls(field, known.get(name, {}))
                for name, field in fields.items()
                if field is not None or name not in known
            }
        case list(items):
            return [_without_nulls(item, schema.get("items", {})) for item in items]
    return value


def _line(found: ErrorDetails, schema: JsonSchema) -> str:
    path = _path(found["loc"])
    if found["type"] == "extra_forbidden":
        known = _fields_at(found["loc"][:-1], schema)
        near = difflib.get_close_matches(str(found["loc"][-1]), known, n=1)
        advice = f"did you mean {near[0]}?" if near else f"known fields are {', '.join(known)}"
        return f'unknown field "{path}": {advice}'
    return f"{path or 'the manifest'}: {_in_words(found)}"


def _path(location: tuple[int | str, ...]) -> str:
    """Write a field's path as kubectl does: `spec.sizes[1]`."""
    return "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" for step in location
    ).removeprefix(".")


def _fields_at(location: tuple[int | str, ...], schema: JsonSchema) -> list[str]:
    for step in location:
        schema = schema["items"] if isinstance(step, int) else schema["properties"][step]
    return sorted(schema["properties"])


def _in_words(found: ErrorDetails) -> str:
    template = _WORDS.get(found["type"])
    if template is None:
        return found["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return template.format(given=json.dumps(found["input"]), **found.get("ctx", {}))
