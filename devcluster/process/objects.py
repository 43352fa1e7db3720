"""The ConfigMaps and Secrets that a pod refers to."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Protocol

import aiohttp

from devcluster.client import ApiError, at
from devcluster.kubelet.runtime import Manifest, StartError

Kind = Literal["configmaps", "secrets"]
SINGULAR: dict[Kind, str] = {"configmaps": "configmap", "secrets": "secret"}


class Api(Protocol):
    """The part of an API client that this runtime needs."""

    async def get(self, path: str) -> Manifest:
        """Read one object; raises ApiError."""

    async def create(self, path: str, body: Manifest) -> Manifest:
        """Post to a collection or a subresource; raises ApiError."""


@contextmanager
def refusals_as(reason: str) -> Iterator[None]:
    """Turn a refusal or a missing answer into a StartError, so that the kubelet tries again."""
    try:
        yield
    except (ApiError, aiohttp.ClientError, TimeoutError) as error:
        raise StartError(reason, str(error)) from error


async def find(api: Api, path: str) -> Manifest | None:
    """Read one object, or None when it does not exist."""
    try:
        return await api.get(path)
    except ApiError as error:
        if error.status == 404:
            return None
        raise


async def find_data(api: Api, kind: Kind, namespace: str, name: str) -> dict[str, bytes] | None:
    """Read the keys of a ConfigMap or Secret, or None when it does not exist."""
    found = await find(api, at(kind, namespace, name))
    if found is None:
        return None
    plain = found.get("data") or {}
    if kind == "secrets":
        return {key: base64.b64decode(value) for key, value in plain.items()}
    binary = found.get("binaryData") or {}
    return {key: str(value).encode() for key, value in plain.items()} | {
        key: base64.b64decode(value) for key, value in binary.items()
    }
