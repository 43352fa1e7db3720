"""The shipped roles for one namespace, which can be taken from an operator and given back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from devcluster.client import Client, Manifest, at
from tests.support.cluster.operator_world import ROOT, World, suppress_missing

_GROUP = "rbac.authorization.k8s.io/v1"
_BINDINGS = frozenset({"RoleBinding", "ClusterRoleBinding"})
_ACCOUNT = "spotrun"


@dataclass
class Rights:
    """An account, its roles, and what binds them to each other."""

    kube: Client
    roles: list[Manifest]
    bindings: list[Manifest]
    token: str

    async def give(self) -> None:
        """Bind the account to its roles."""
        for one in self.bindings:
            with suppress_missing(409):
                await self.kube.create(_path(one), one)

    async def take(self) -> None:
        """Delete the bindings: from now on all that the operator asks for is forbidden."""
        await self._delete(self.bindings)

    async def end(self) -> None:
        """Remove all of it."""
        await self._delete([*self.bindings, *self.roles])

    async def _delete(self, objects: list[Manifest]) -> None:
        for one in objects:
            with suppress_missing():
                await self.kube.delete(f"{_path(one)}/{one['metadata']['name']}")


@asynccontextmanager
async def limited(world: World) -> AsyncIterator[Rights]:
    """An account with the shipped roles for the world's namespace, while the block lasts."""
    kube, accounts = world.kube, at("serviceaccounts", world.home)
    await kube.create(accounts, {"metadata": {"name": _ACCOUNT}})
    answer = await kube.create(
        f"{accounts}/{_ACCOUNT}/token", {"spec": {"expirationSeconds": 86_400}}
    )
    shipped = [_of_world(one, world) for one in _shipped()]
    rights = Rights(
        kube,
        [one for one in shipped if one["kind"] not in _BINDINGS],
        [one for one in shipped if one["kind"] in _BINDINGS],
        answer["status"]["token"],
    )
    try:
        for one in rights.roles:
            await kube.create(_path(one), one)
        await rights.give()
        yield rights
    finally:
        await rights.end()


def _shipped() -> list[Manifest]:
    text = (ROOT / "manifests" / "rbac-namespaced.yaml").read_text()
    parts: list[Manifest] = [one for one in yaml.safe_load_all(text) if one]
    return [one for one in parts if one["kind"] not in {"Namespace", "ServiceAccount"}]


def _of_world(one: Manifest, world: World) -> Manifest:
    """Return a role or a binding for this world alone: others have some of the same names."""
    places = {"ml": world.namespace, "spotrun-system": world.home}
    meta: dict[str, Any] = {"name": _name(one["metadata"]["name"], world)}
    if place := one["metadata"].get("namespace"):
        meta["namespace"] = places.get(place, place)
    made = {**one, "metadata": meta}
    if one["kind"] in _BINDINGS:
        made["roleRef"] = {**one["roleRef"], "name": _name(one["roleRef"]["name"], world)}
        made["subjects"] = [{"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": world.home}]
    return made


def _name(name: str, world: World) -> str:
    return f"{name}-{world.namespace}"


def _path(one: Manifest) -> str:
    place = one["metadata"].get("namespace")
    return at(f"{one['kind'].lower()}s", place, group=_GROUP)
