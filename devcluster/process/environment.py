"""A container's environment variables, by the kubelet's rules of precedence."""

import os
from collections.abc import Mapping

from devcluster.kubelet.runtime import Manifest, StartError
from devcluster.process import downward
from devcluster.process.downward import Place
from devcluster.process.expansion import expand
from devcluster.process.objects import SINGULAR, Api, Kind, find_data

_KINDS: dict[str, Kind] = {
    "configMapRef": "configmaps",
    "configMapKeyRef": "configmaps",
    "secretRef": "secrets",
    "secretKeyRef": "secrets",
}


async def variables(
    api: Api, place: Place, container: Manifest, service: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of a container; raises StartError if a reference has no target.

    `env` overrides `envFrom`, both override `service`, and later entries override earlier ones. A
    value may refer to earlier variables and to `service`.
    """
    own: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        own.update(await _all_keys(api, place, source))
    for entry in container.get("env") or ():
        value = await _value(api, place, container, entry, {**service, **own})
        if value is not None:
            own[entry["name"]] = value
    return {**service, **own}


async def _value(
    api: Api, place: Place, container: Manifest, entry: Manifest, known: Mapping[str, str]
) -> str | None:
    if source := entry.get("valueFrom"):
        return await _referred(api, place, container, source)
    return expand(entry.get("value") or "", known)


async def _all_keys(api: Api, place: Place, source: Manifest) -> dict[str, str]:
    field, reference = next((k, source[k]) for k in ("configMapRef", "secretRef") if source.get(k))
    data = await _data(api, place, field, reference)
    prefix = source.get("prefix") or ""
    return {prefix + key: os.fsdecode(value) for key, value in data.items()}


async def _referred(api: Api, place: Place, container: Manifest, source: Manifest) -> str | None:
    if reference := source.get("fieldRef"):
        return downward.field(place, reference["fieldPath"])
    if reference := source.get("resourceFieldRef"):
        named = reference.get("containerName")
        asked = downward.container_of(place.pod, named) if named else container
        return downward.resource(place, asked, reference)
    for field in ("configMapKeyRef", "secretKeyRef"):
        if reference := source.get(field):
            return await _key(api, place, field, reference)
    raise StartError("CreateContainerConfigError", f"unsupported valueFrom: {', '.join(source)}")


async def _key(api: Api, place: Place, field: str, reference: Manifest) -> str | None:
    data = await _data(api, place, field, reference)
    key = reference["key"]
    if key in data:
        return os.fsdecode(data[key])
    if reference.get("optional"):
        return None
    owner = f"{SINGULAR[_KINDS[field]]} {place.namespace}/{reference['name']}"
    raise StartError("CreateContainerConfigError", f"couldn't find key {key} in {owner}")


async def _data(api: Api, place: Place, field: str, reference: Manifest) -> dict[str, bytes]:
    kind, name = _KINDS[field], reference["name"]
    data = await find_data(api, kind, place.namespace, name)
    if data is not None:
        return data
    if reference.get("optional"):
        return {}
    raise StartError("CreateContainerConfigError", f'{SINGULAR[kind]} "{name}" not found')
