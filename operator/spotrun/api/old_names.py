"""Names that fields of status had in earlier releases: values stored under them are still read.

Nothing is written under an old name: the next write of a status uses only the present names. The
API server removes fields that a CRD does not declare, also from stored objects, so the CRD declares
the old names. The CRD does not require a renamed field either: an operator that is being replaced
writes the old names, and the status of a job that has ended is not written again.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import AliasChoices, AliasGenerator, ConfigDict
from pydantic.alias_generators import to_camel

DEPRECATED = "Deprecated"
"""The first word of a field's description in the CRD, if the field has an old name."""

STATUS = {"nextWorkerId": "nextSerial"}

RESTARTS = {"lastWorldNumber": "lastGeneration", "joiningWorkers": "newcomers"}

ACCUMULATORS = {"worldNumber": "generation", "checkpointWorldNumber": "checkpointGeneration"}

HELD_BACK = {"worldNumber": "generation"}

WORLD = {
    "number": "generation",
    "active": "switch",
    "entry": "how",
    "stateHolders": "trained",
    "usedStores": "spent",
    "trainingNumber": "trains",
    "lateWorkers": "late",
    "joiningWorkers": "joined",
}


def reading(old_names: Mapping[str, str]) -> ConfigDict:
    """Return the configuration of a model that also reads fields by their old names."""

    def names_read(field: str) -> str | AliasChoices:
        name = to_camel(field)
        return AliasChoices(name, old_names[name]) if name in old_names else name

    def declare_old_names(schema: dict[str, Any]) -> None:
        if "required" in schema:
            schema["required"] = [name for name in schema["required"] if name not in old_names]
        fields = schema["properties"]
        for name, old in old_names.items():
            fields[old] = {**fields[name], "description": f"{DEPRECATED}: earlier name of {name}."}

    return ConfigDict(
        alias_generator=AliasGenerator(alias=to_camel, validation_alias=names_read),
        json_schema_extra=declare_old_names,
    )
