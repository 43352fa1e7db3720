"""The operator's rights are no more than it uses: a life of it, by the API server's audit log.

Each right of manifests/rbac.yaml is used in it, and nothing is denied.
"""

import base64
import datetime
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from devcluster.client import ApiError, Manifest, at
from spotrun.api.names import FINALIZER_METERED
from spotrun.http.certificates import make_authority, sign_serving
from spotrun.http.tls import OwnSecret
from spotrun.kube.resource import Key
from spotrun.kube.rest.access import Credentials, from_kubeconfig
from spotrun.kube.rest.client import Client
from spotrun.kube.rest.transport import Transport
from spotrun.observe.prices.tables import PriceSources
from spotrun.observe.telemetry import metrics_server
from spotrun.runtime.controller import Controller
from spotrun.state.names import owned_name, worker_name
from tests.integration.manifests.helpers import OPERATOR, shipped
from tests.integration.process.helpers import HOME, LEASE, grant_rights, token, write_kubeconfig
from tests.support.cluster.audit_log import AuditLog
from tests.support.cluster.kopf_front import fronted
from tests.support.cluster.operator_world import GROUP, PATIENCE_SECONDS, World
from tests.support.cluster.rights import Right, denied, granted, used
from tests.support.cluster.scripted_agent import Times

SECRET = at("secrets", HOME, "spotrun-agents")
POOLS = at("capacitypools", group=GROUP)
PRICE = "spotrun.dev/usd-per-hour"
ASKED = {"requests": {"cpu": "1", "memory": "4Gi"}}
CONTAINER = {"name": "trainer", "image": "x", "args": ["train.py"], "resources": ASKED}
TEMPLATE = {"spec": {"containers": [CONTAINER]}}
NOWHERE = {"containers": [CONTAINER], "nodeSelector": {"nobody": "has-this"}}


BLOCKING = (
    "not a request: the API server asks for this right when a {made} is made whose owner reference "
    "blocks the owner's deletion, where OwnerReferencesPermissionEnforcement is on"
)
NEVER_REQUESTED: Mapping[Right, str] = {
    Right("", "spotrun.dev", "trainingjobs/finalizers", "update", ""): BLOCKING.format(made="pod"),
    Right("", "spotrun.dev", "tuningjobs/finalizers", "update", ""): BLOCKING.format(made="trial"),
}


GRANTED = granted(shipped("rbac.yaml"))


@asynccontextmanager
async def operating(world: World, kubeconfig: Path) -> AsyncIterator[Controller]:
    """The operator as its own account, for all namespaces, with a price table."""
    credentials = Credentials(from_kubeconfig(kubeconfig))
    async with Transport(credentials) as transport:
        client = Client(transport, field_manager="spotrun")
        prices = PriceSources(table=Key(HOME, "spotrun-prices"))
        settings = world.settings(namespace=HOME, watch_namespace=None, price_sources=prices)
        source = OwnSecret(client, namespace=HOME)
        async with fronted(partial(Controller, settings, client, source)) as controller:
            yield controller


async def test_the_operator_lacks_a_right_or_has_one_too_many(
    alone: World,
    own_audit: AuditLog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """neither: the operator uses every right that it is granted, and no request of it is denied"""
    world = alone
    monkeypatch.setattr(metrics_server, "IGNORED_SECONDS", 0.2)
    grant_rights(world.cluster, "rbac.yaml")
    account = write_kubeconfig(world.cluster, token(world.cluster), tmp_path / "kubeconfig")
    await forget_former_lives(world)
    own_audit.new()
    events: list[dict[str, Any]] = []
    labels = {"node.kubernetes.io/instance-type": "g5.xlarge"}
    room = {"cpu": "16", "memory": "64Gi"}
    await world.nodes.add("a", capacity=room, labels=labels, annotations={PRICE: "360"})
    await an_old_pool(world)
    await an_orphan(world)
    await a_job_whose_names_are_taken(world)
    await a_claim(world)
    await a_job_of_claimed_devices(world)
    await a_job_that_grows(world)
    await a_job_that_tells_nothing(world)
    await a_job_that_is_protected_by_somebody(world)
    async with operating(world, account):
        await world.kube.until(world.jobs(), "grows", _has_grown, timeout_seconds=PATIENCE_SECONDS)
        await world.until_phase("Running", "ceases")
        await world.patch_job({"suspend": True}, "ceases")
        await world.until_phase("Suspended", "ceases")
    await age_certificates(world)
    async with operating(world, account):
        place = {"volume": {"persistentVolumeClaim": {"claimName": "claimed"}}}
        await world.create_job("claims", workers=sized(2), checkpoint=place)
        await world.create_job(
            "ends", workers=sized(1), finished={"deleteAfter": "1s", "report": True}
        )
        await world.create_search(trials={"max": 1})
        await world.create_limit(limitUsd="100", onExceeded="Warn")
        await world.until_phase("Running", "ends")
        world.play("ends").may_finish.set()

        async def is_all_used() -> bool:
            events.extend(own_audit.new())
            return not (GRANTED - used(events) - NEVER_REQUESTED.keys())

        try:
            await world.until(is_all_used)
        except TimeoutError:
            unused = sorted(GRANTED - used(events) - NEVER_REQUESTED.keys())
            pytest.fail(f"granted and not used within a minute: {unused}")
    assert NEVER_REQUESTED.keys() <= GRANTED
    assert not used(events) & NEVER_REQUESTED.keys()
    assert {event["user"]["username"] for event in events} == {OPERATOR}
    assert denied(events) == []


def _has_grown(job: Manifest | None) -> bool:
    return job is not None and job["spec"]["workers"]["replicas"] > 2


def sized(number: int) -> dict[str, Any]:
    return {"min": number, "max": number, "replicas": number, "template": TEMPLATE}


async def forget_former_lives(world: World) -> None:
    """As if no operator had ever run here."""
    for path in (SECRET, LEASE):
        with suppress(ApiError):  # there is none
            await world.kube.delete(path)


async def a_claim(world: World) -> None:
    """One that names its volume."""
    wanted = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": "nowhere"}
    spec = {**wanted, "resources": {"requests": {"storage": "1Gi"}}}
    body = {"metadata": {"name": "claimed"}, "spec": spec}
    await world.kube.create(at("persistentvolumeclaims", world.namespace), body)


async def a_job_of_claimed_devices(world: World) -> None:
    """It names a claim, and a template of claims, that say how many devices its workers have."""
    claims = [
        {"name": "own", "resourceClaimTemplateName": "gpus"},
        {"name": "shared", "resourceClaimName": "switch"},
    ]
    trainer = {**CONTAINER, "resources": {**ASKED, "claims": [{"name": c["name"]} for c in claims]}}
    template = {"spec": {"containers": [trainer], "resourceClaims": claims}}
    await world.create_job("devices", workers={**sized(1), "template": template})


async def an_old_pool(world: World) -> None:
    """A pool that was found, and has had no node for more than a week."""
    body = {
        "apiVersion": GROUP,
        "kind": "CapacityPool",
        "metadata": {"name": "empty", "labels": {"app.kubernetes.io/managed-by": "spotrun"}},
        "spec": {"capacity": "Spot", "instanceTypes": ["g5.48xlarge"]},
    }
    await world.kube.create(POOLS, body)
    long_ago = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=8)).isoformat()
    moment = long_ago.replace("+00:00", "Z")
    status = {"status": {"emptySince": moment, "asOf": moment}}
    await world.kube.patch(f"{POOLS}/empty/status", status)


async def an_orphan(world: World) -> None:
    """A worker whose job is no more."""
    labels = {"spotrun.dev/job": "gone", "spotrun.dev/job-uid": "gone"}
    meta = {"name": "gone-abcde-0", "labels": labels, "finalizers": [str(FINALIZER_METERED)]}
    await world.kube.create(at("pods", world.namespace), {"metadata": meta, "spec": NOWHERE})


async def a_job_that_grows(world: World) -> None:
    """More workers make it faster, so it is given more."""
    world.play("grows").step_times = lambda size: Times(8 / size)
    workers = {"min": 1, "max": 4, "replicas": 2, "template": TEMPLATE}
    at_once = {"scaleUpAfter": "0s", "scaleDownAfter": "0s"}
    await world.create_job("grows", workers=workers, scaling=at_once)


async def a_job_that_tells_nothing(world: World) -> None:
    """So what its pods use is asked for, in vain: nobody serves that here."""
    world.play("mute").is_mute = True
    await world.create_job("mute", workers={**sized(2), "min": 1})


async def a_job_whose_names_are_taken(world: World) -> None:
    """By pods of somebody else, which is told."""
    job = await world.create_job(workers={**sized(2), "min": 1}, suspend=True)
    meta = {"name": worker_name("job", job["metadata"]["uid"], 0)}
    await world.kube.create(at("pods", world.namespace), {"metadata": meta, "spec": NOWHERE})
    await world.patch_job({"suspend": False})


async def a_job_that_is_protected_by_somebody(world: World) -> None:
    """What is to stand around its workers is there, and is made as it should be."""
    job = await world.create_job("ceases", workers=sized(2), suspend=True)
    nothing: Manifest = {"podSelector": {"matchLabels": {"a": "b"}}}
    name = owned_name("ceases", job["metadata"]["uid"])
    await world.kube.create(
        at("networkpolicies", world.namespace, group="networking.k8s.io/v1"),
        {"metadata": {"name": name}, "spec": nothing},
    )
    await world.kube.create(
        at("poddisruptionbudgets", world.namespace, group="policy/v1"),
        {"metadata": {"name": name}, "spec": {"selector": nothing["podSelector"]}},
    )
    await world.patch_job({"suspend": False}, "ceases")


async def age_certificates(world: World) -> None:
    """The agents' certificate is about to expire."""
    year = datetime.timedelta(days=360)
    before = datetime.datetime.now(datetime.UTC) - year
    serving = sign_serving(make_authority(before), before)
    data = {"tls.crt": serving.certificate, "tls.key": serving.key}
    encoded = {name: base64.b64encode(content).decode() for name, content in data.items()}
    await world.kube.patch(SECRET, {"data": encoded})
