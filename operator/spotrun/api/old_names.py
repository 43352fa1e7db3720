"""Names that fields of status had in earlier releases: what is stored under them is still read.

Nothing is written under an old name: the next write of a status has today's names only. The API
server cuts off what a CRD does not declare, in stored objects too, so the CRD declares the old
names. No renamed field is required there either: an operator that is replaced writes the old
names, and of a job that has ended nobody writes the status again.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import AliasChoices, AliasGenerator, ConfigDict
from pydantic.alias_generators import to_camel

DEPRECATED = "Deprecated"
"""The first word about a field in the CRD, if it is an old name."""

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
    """Return the configuration of a model that is read by its old names as well."""

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
