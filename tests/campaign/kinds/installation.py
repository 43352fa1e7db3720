"""Faults of what is installed in a cluster: its namespaces, CRDs, policies and roles."""

import asyncio

import yaml

from devcluster.client import Manifest, at
from tests.campaign.ground import Ground, Needs
from tests.campaign.kinds.kind import Kind
from tests.campaign.plan import Fault
from tests.campaign.scenarios import live_another
from tests.support.cluster.operator_world import ROOT, suppress_missing

_WHILE_SECONDS = 2.0
_CRDS = at("customresourcedefinitions", group="apiextensions.k8s.io/v1")
_POLICIES = "admissionregistration.k8s.io/v1"


async def _terminating(ground: Ground, _: Fault) -> None:
    """The namespace is deleted with all that is in it; the operator lives elsewhere."""
    ground.is_job_ended.set()
    path = at("namespaces", None, ground.world.namespace)
    with suppress_missing(409):
        await ground.world.kube.delete(path)
    await _gone(ground)


async def _crd_deleted(ground: Ground, _: Fault) -> None:
    """The CRD goes, and with it all jobs; it comes back, and a new job trains."""

    async def is_seen(job: str) -> bool:
        return any(event.name == job for event in ground.history.events)

    ground.is_job_ended.set()
    kube, (crd,) = ground.world.kube, _shipped("crds/spotrun.dev_trainingjobs.yaml")
    name = crd["metadata"]["name"]
    await kube.delete(f"{_CRDS}/{name}")
    await kube.until(_CRDS, name, lambda found: found is None)
    await asyncio.sleep(_WHILE_SECONDS)
    await kube.create(_CRDS, crd)
    await kube.until(_CRDS, name, _is_established)
    await _gone(ground)
    await live_another(ground.stage, is_seen)


async def _policy_deleted(ground: Ground, _: Fault) -> None:
    """The admission policy comes, goes, and comes back."""
    policy = _shipped("manifests/admission.yaml")
    await _install(ground, policy)
    for _nth in range(2):
        await asyncio.sleep(_WHILE_SECONDS / 2)
        await _remove(ground, policy)
        await _install(ground, policy)
    await asyncio.sleep(_WHILE_SECONDS / 2)
    await _remove(ground, policy)


async def _rights_taken(ground: Ground, _: Fault) -> None:
    """The bindings of the operator's account are deleted, and made again."""
    assert ground.rights is not None, "it needs an account"
    await ground.rights.take()
    try:
        await asyncio.sleep(_WHILE_SECONDS)
    finally:
        await ground.rights.give()


async def _gone(ground: Ground) -> None:
    """Wait until nothing is left of the job."""
    world = ground.world

    async def is_gone() -> bool:
        return await world.pods() == [] and await world.kube.list(world.jobs()) == []

    await world.until(is_gone)


async def _install(ground: Ground, objects: list[Manifest]) -> None:
    for one in objects:
        with suppress_missing(409):
            await ground.world.kube.create(_path(one), one)


async def _remove(ground: Ground, objects: list[Manifest]) -> None:
    for one in reversed(objects):
        with suppress_missing():
            await ground.world.kube.delete(f"{_path(one)}/{one['metadata']['name']}")


def _path(one: Manifest) -> str:
    plural = one["kind"].lower().replace("policy", "policie")
    plural = plural.replace("policiebinding", "policybinding")
    return at(f"{plural}s", group=_POLICIES)


def _shipped(file: str) -> list[Manifest]:
    return [one for one in yaml.safe_load_all((ROOT / file).read_text()) if one]


def _is_established(crd: Manifest | None) -> bool:
    conditions = (crd or {}).get("status", {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


KINDS: dict[str, Kind] = {
    "namespace_terminating": Kind(_terminating, ends_job=True, needs=Needs(has_home=True)),
    "crd_deleted": Kind(_crd_deleted, ends_job=True, is_alone=True, is_in_ci=False),
    "admission_policy_deleted": Kind(_policy_deleted, is_exact=True, is_alone=True),
    "rbac_bindings_deleted": Kind(_rights_taken, is_exact=True, needs=Needs(has_account=True)),
}
