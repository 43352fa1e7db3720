"""Tenants who want more than their share of the operator, or to have it paid by others."""

import uuid
from collections.abc import AsyncIterator
from datetime import datetime

import pytest

from devcluster.client import at
from spotrun.policies.cost.billing.codec import DATA_KEY, bill_name, read
from spotrun.policies.cost.billing.lines import JobLine
from spotrun.policies.cost.billing.months import month_of
from tests.integration.money.helpers import add_node, workers
from tests.support.api.manifest_cases import job as a_job
from tests.support.cluster.operator_world import World

CROWD = 40
GIANT_BYTES = 1_000_000  # etcd takes 1.5 MB of one object


@pytest.fixture
async def crowded(world: World) -> AsyncIterator[str]:
    """A namespace of another tenant, full of jobs that want a node each."""
    name = f"crowd-{uuid.uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await world.kube.create(at("namespaces"), body)
    path = at("trainingjobs", name, group="spotrun.dev/v1alpha1")
    for number in range(CROWD):
        job = a_job()
        job["metadata"] = {"name": f"job-{number}"}
        await world.kube.create(path, job)
    yield name
    await world.kube.delete(at("namespaces", None, name))


async def test_a_tenant_creates_jobs_without_end(world: World, crowded: str) -> None:
    """harmless: namespaces take turns in the operator's queue, so jobs of other namespaces need not
    wait for all of these"""
    await world.create_job()
    async with world.operator(watch_namespace=None, workers=4):
        [mine] = await world.until(lambda: _begun(world, world.namespace))
    before_mine = [one for one in await _begun(world, crowded) if one < mine]
    assert len(before_mine) <= CROWD // 2


async def test_a_tenant_has_its_jobs_paid_by_another_team(world: World) -> None:
    """harmless if the namespace has a label team: bills use it instead of the job's label"""
    named = {"metadata": {"labels": {"team": "mine"}}}
    await world.kube.patch(at("namespaces", None, world.namespace), named)
    await add_node(world, "a", "36")
    created = await world.create_job(workers=workers(1))
    theirs = {"metadata": {"labels": {"team": "theirs", "project": "secret"}}}
    await world.kube.patch(world.jobs(created["metadata"]["name"]), theirs)
    async with world.operator():
        line = await world.until(lambda: _line(world))
    assert line.labels == {"team": "mine", "project": "secret"}


async def test_a_tenant_makes_a_job_as_large_as_objects_may_be(world: World) -> None:
    """harmless to others: their jobs start, and the large one is handled like any other"""
    env = [{"name": "A", "value": "x" * GIANT_BYTES}]
    containers = [{"name": "trainer", "image": "x", "args": ["train.py"], "env": env}]
    await world.create_job("giant", workers={"template": {"spec": {"containers": containers}}})
    await world.create_job()
    await add_node(world, "a", "36")
    async with world.operator():
        await world.until_phase("Running")


async def _begun(world: World, namespace: str) -> list[int]:
    """When each job's NetworkPolicy was made, which never changes: versions are in order."""
    found = await world.kube.list(at("networkpolicies", namespace, group="networking.k8s.io/v1"))
    return [int(one["metadata"]["resourceVersion"]) for one in found]


async def _line(world: World) -> JobLine | None:
    name = bill_name(world.namespace, month_of(datetime.now().astimezone()))
    found = await world.kube.list(at("configmaps", world.namespace))
    stored = [one for one in found if one["metadata"]["name"] == name]
    lines = read(stored[0]["data"][DATA_KEY]).jobs.values() if stored else ()
    return next((line for line in lines if line.charged), None)
