"""The base of every model of the API: strict frozen data, and rules for CEL and Python."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from typing_extensions import override


@dataclass(frozen=True)
class Rule:
    """A rule between fields: in CEL for the API server, in Python here, in words for people.

    A rule without `holds` is checked only by the API server, because it compares with the old
    object or needs data that only the server has.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool] | None


class Model(BaseModel):
    """Strict, frozen data with camelCase names in manifests and snake_case names in Python."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        cache_strings="keys",  # names and times of jobs that are gone would fill the cache
    )

    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        broken = [rule.message for rule in self.rules if rule.holds and not rule.holds(self)]
        if broken:
            raise ValueError("; ".join(broken))
        return self

    @model_serializer(mode="wrap")
    def _leave_out_what_is_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        declared = {
            name for key, field in type(self).model_fields.items() for name in (key, field.alias)
        }
        # Only declared fields: a null inside the user's pod template is kept.
        return {k: v for k, v in handler(self).items() if v is not None or k not in declared}

    @classmethod
    @override
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        produced = handler.resolve_ref_schema(handler(schema))
        if cls.rules:
            produced["x-kubernetes-validations"] = [
                {"rule": rule.cel, "message": rule.message} for rule in cls.rules
            ]
        return produced

    def having(self, **values: object) -> Self:
        """Return a copy with other values, which are checked as if a user had written them."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self).model_validate({**given, **values})

    def manifest(self) -> dict[str, Any]:
        """Return the fields that are given, with the names and forms of the API."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)
