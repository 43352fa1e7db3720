"""The structural schema that a CRD needs, from pydantic's JSON schema."""

from typing import Any

JsonSchema = dict[str, Any]

# Keys that the API server does not need or accept; a rule with a message replaces `pattern`.
_DROPPED = frozenset({"title", "additionalProperties", "pattern", "const", "$defs", "default"})


def structural(schema: JsonSchema) -> JsonSchema:
    """Return the schema with references inlined and only what a CRD may contain."""
    return _convert(schema, schema.get("$defs", {}))


def _convert(schema: JsonSchema, definitions: JsonSchema) -> JsonSchema:
    schema = _resolve(schema, definitions)
    result = {key: value for key, value in schema.items() if key not in _DROPPED}
    if schema.get("default") is not None:
        result["default"] = schema["default"]
    if schema.get("type") == "integer":
        result["format"] = "int32" if schema["maximum"] < 2**31 else "int64"
    if "items" in schema:
        result["items"] = _convert(schema["items"], definitions)
    if "properties" in schema:
        result["properties"] = {
            name: _convert(field, definitions) for name, field in schema["properties"].items()
        }
    match schema.get("additionalProperties"):
        case True if "properties" in schema:
            result["x-kubernetes-preserve-unknown-fields"] = True
        case dict(values):
            result["additionalProperties"] = _convert(values, definitions)
    return result


def _resolve(schema: JsonSchema, definitions: JsonSchema) -> JsonSchema:
    """Follow references and unwrap `X or null`; the field's own description wins."""
    if "anyOf" in schema:
        options = [option for option in schema["anyOf"] if option != {"type": "null"}]
        assert len(options) == 1, f"a CRD cannot have unions: {schema}"
        target = options[0]
        schema = {key: value for key, value in schema.items() if key != "anyOf"}
    elif "$ref" in schema:
        target = definitions[schema["$ref"].removeprefix("#/$defs/")]
        schema = {key: value for key, value in schema.items() if key != "$ref"}
    else:
        return schema
    return _resolve({**_resolve(target, definitions), **schema}, definitions)
