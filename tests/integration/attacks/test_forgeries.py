"""What looks like the operator's own and is not: pods, owners, annotations, whole jobs."""

from decimal import Decimal
from typing import Any

import pytest

from devcluster.client import ApiError, Manifest, at
from spotrun.api.names import FINALIZER_METERED
from spotrun.state.names import worker_name
from tests.integration.attacks.helpers import taken_over
from tests.support.cluster.operator_world import GROUP, World

PRICE = "spotrun.dev/usd-per-hour"
ROOM = {"cpu": "4", "memory": "16Gi"}
ASKED = {"requests": {"cpu": "1", "memory": "4Gi"}}
CONTAINER = {"name": "trainer", "image": "x", "args": ["train.py"], "resources": ASKED}
DEEPEST = 4_000  # levels; the API server takes up to 10,000


def sized(number: int) -> dict[str, Any]:
    template = {"spec": {"containers": [CONTAINER]}}
    return {"min": number, "max": number, "replicas": number, "template": template}


def lookalike(job: Manifest, name: str, **meta: Any) -> Manifest:
    """A pod as the operator would have made it, but for who makes it."""
    of = job["metadata"]
    labels = {
        "spotrun.dev/job": of["name"],
        "spotrun.dev/job-uid": of["uid"],
        "spotrun.dev/worker-id": "7",
        "spotrun.dev/template": "t",
        "app.kubernetes.io/managed-by": "spotrun",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, **meta},
        "spec": {"containers": [CONTAINER], "terminationGracePeriodSeconds": 0},
    }


def owned_by(job: Manifest) -> list[Manifest]:
    of = job["metadata"]
    return [
        {
            "apiVersion": GROUP,
            "kind": "TrainingJob",
            "name": of["name"],
            "uid": of["uid"],
            "controller": True,
        }
    ]


async def trains(world: World, number: int) -> Manifest:
    """The job, once so many workers of it train."""
    job = await world.until_job(lambda s: s.get("workers", {}).get("running") == number)
    return job if job["status"]["phase"] == "Running" else await world.until_phase("Running")


async def looked_at(world: World) -> Manifest:
    """The job, once it has been looked at again: that it has a budget now is written at once."""
    await world.patch_job({"budget": {"maxCostUsd": "1000", "onExceeded": "Warn"}})

    def is_within(status: Manifest) -> bool:
        return any(one["type"] == "WithinBudget" for one in status.get("conditions", ()))

    return await world.until_job(is_within)


async def pod_of(world: World, name: str) -> Manifest:
    return await world.kube.get(at("pods", world.namespace, name))


async def test_a_pod_has_our_labels_and_another_owner(world: World) -> None:
    """harmless: the operator counts it as nobody's worker, and leaves it alone"""
    await world.nodes.add("a", capacity=ROOM, annotations={PRICE: "4"})
    await world.create_job(workers=sized(1))
    async with world.operator():
        job = await trains(world, 1)
        await world.kube.create(at("pods", world.namespace), lookalike(job, "lookalike"))
        await world.kube.until(at("pods", world.namespace), "lookalike", _runs, timeout_seconds=60)
        job = await looked_at(world)
        assert job["status"]["workers"]["running"] == 1
        assert Decimal(job["status"]["cost"]["usdPerHour"]) == 1
        assert "deletionTimestamp" not in (await pod_of(world, "lookalike"))["metadata"]


async def test_a_pod_forges_owner_name_and_number_of_a_worker(world: World) -> None:
    """harmless: the operator never assigned that number, so the pod adds no cost, and its reports
    are refused"""
    await world.nodes.add("a", capacity=ROOM, annotations={PRICE: "4"})
    await world.create_job(workers=sized(1))
    async with world.operator():
        job = await trains(world, 1)
        name = worker_name("job", job["metadata"]["uid"], 7)
        forged = lookalike(job, name, ownerReferences=owned_by(job))
        await world.kube.create(at("pods", world.namespace), forged)
        await world.kube.until(at("pods", world.namespace), name, _runs, timeout_seconds=60)
        job = await looked_at(world)
        assert job["status"]["workers"]["running"] == 1
        assert Decimal(job["status"]["cost"]["usdPerHour"]) == 1
        (real, *_) = await world.pods()
        env = [one for one in real["spec"]["containers"][0]["env"] if "value" in one]
        told = [{**one, "value": name} if one["name"] == "SPOTRUN_WORKER" else one for one in env]
        forged = await pod_of(world, name)
        forged["spec"]["containers"][0]["env"] = told
        async with taken_over(world, forged) as traitor:
            answer = await traitor.report({"wire": 1, "completed": True})
        assert (answer.status, "is no worker of a job" in answer.message) == (404, True)


async def test_a_pod_takes_the_name_of_the_next_worker(world: World) -> None:
    """reported: the operator deletes no pod of others, and the job's status says what to do"""
    await world.nodes.add("a", capacity=ROOM)
    job = await world.create_job(workers=sized(1), suspend=True)
    name = worker_name("job", job["metadata"]["uid"], 0)
    squatter = {**lookalike(job, name), "metadata": {"name": name}}
    await world.kube.create(at("pods", world.namespace), squatter)
    async with world.operator():
        await world.patch_job({"suspend": False})
        told = "does not belong to this job: delete it, or give the job another name"
        await world.until_job(lambda s: told in s.get("message", ""))
        assert "deletionTimestamp" not in (await pod_of(world, name))["metadata"]


async def test_a_pod_of_another_namespace_says_that_it_is_ours(world: World) -> None:
    """harmless: a job has workers in its own namespace only"""
    await world.nodes.add("a", capacity=ROOM)
    await world.create_job(workers=sized(1))
    other = f"{world.namespace}-other"
    await world.kube.create(at("namespaces"), {"metadata": {"name": other}})
    try:
        async with world.operator(watch_namespace=None):
            job = await trains(world, 1)
            await _account(world, other)
            name = worker_name("job", job["metadata"]["uid"], 0)
            pod = lookalike(job, name, finalizers=[str(FINALIZER_METERED)])
            pod["metadata"]["ownerReferences"] = owned_by(job)
            await world.kube.create(at("pods", other), pod)
            # Its owner is no job of its namespace, so it is let go of as an orphan.
            await world.kube.until(at("pods", other), name, _is_let_go, timeout_seconds=60)
            assert (await trains(world, 1))["status"]["nextWorkerId"] == 1
    finally:
        await world.kube.delete(at("namespaces", None, other))


COSTS = ("NaN", "-Infinity", "1e999999999", "0.0001 USD", "999999999999")


@pytest.mark.parametrize("cost", COSTS)
async def test_a_tenant_writes_what_a_job_has_cost(world: World, cost: str) -> None:
    """harmless: the operator overwrites it, and computes nothing from it"""
    await world.nodes.add("a", capacity=ROOM, annotations={PRICE: "3600"})
    await world.create_job(workers=sized(1))
    async with world.operator():
        await trains(world, 1)
        annotations = {"spotrun.dev/cost-usd": cost}
        await world.kube.patch(world.jobs("job"), {"metadata": {"annotations": annotations}})
        await looked_at(world)

        def is_true_again(job: Manifest | None) -> bool:
            said = (job or {})["metadata"]["annotations"]["spotrun.dev/cost-usd"]
            return said != cost and 0 < Decimal(said) < 1_000

        await world.kube.until(world.jobs(), "job", is_true_again, timeout_seconds=60)


async def test_a_tenant_puts_a_price_on_a_job_and_on_its_pods(world: World) -> None:
    """harmless: the operator reads prices only from nodes, pools and tables"""
    await world.nodes.add("a", capacity=ROOM, annotations={PRICE: "4"})
    await world.create_job(workers=sized(1))
    free = {"metadata": {"annotations": {PRICE: "0"}}}
    await world.kube.patch(world.jobs("job"), free)
    async with world.operator():
        await trains(world, 1)
        (pod,) = await world.pods()
        await world.kube.patch(at("pods", world.namespace, pod["metadata"]["name"]), free)
        job = await looked_at(world)
        assert Decimal(job["status"]["cost"]["usdPerHour"]) == 1


async def test_a_job_is_nested_too_deeply_for_json_decoders(world: World) -> None:
    """harmless to other jobs, which are read and served; the problem is reported for this job"""
    await world.nodes.add("a", capacity=ROOM)
    deep = '{"a":' * DEEPEST + "1" + "}" * DEEPEST
    text = (
        '{"apiVersion":"spotrun.dev/v1alpha1","kind":"TrainingJob","metadata":{"name":"deep"},'
        '"spec":{"workers":{"template":{"spec":{"containers":[{"name":"trainer","image":"i"}],'
        f'"deep":{deep}}}}}}}}}}}'
    )
    # Python's own JSON does not write what is nested so deep.
    create = ("create", "--validate=false", "-n", world.namespace, "-f", "-")
    world.cluster.kubectl(*create, input=text)
    try:
        await world.create_job(workers=sized(1))
        async with world.operator():
            await trains(world, 1)
            # What it watches is read as well as what it lists.
            annotate = ("annotate", "tjob", "deep", "-n", world.namespace, "example.com/a=b")
            world.cluster.kubectl(*annotate)
            await world.create_job("another", workers=sized(1))
            await world.until_job(lambda s: s.get("phase") == "Running", "another")
    finally:
        # Whoever sweeps the cluster is such a reader, too.
        world.cluster.kubectl("delete", "tjob", "deep", "-n", world.namespace)


ODD: dict[str, Manifest] = {
    "volumes that are no list": {"volumes": True},
    "an affinity that is a text": {"affinity": "x"},
    "expressions without a list": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "values": 5}]}]
                }
            }
        }
    },
    "a grace period in words": {"terminationGracePeriodSeconds": "for ever"},
    "containers that are none": {"initContainers": [1]},
}


async def test_a_job_is_made_of_a_template_that_makes_no_sense(world: World) -> None:
    """reported for each such job; other jobs are served, also by an operator that has just become
    the leader"""
    await world.nodes.add("a", capacity=ROOM)
    for number, (_, spec) in enumerate(ODD.items()):
        template = {"spec": {"containers": [{"name": "trainer", "image": "i"}], **spec}}
        await world.create_job(f"odd-{number}", workers={"template": template})
    await world.create_job(workers=sized(1))
    async with world.operator():
        await trains(world, 1)
        for number in range(len(ODD)):
            job = await world.until_job(
                lambda s: s.get("reason") == "TemplateRefused", f"odd-{number}"
            )
            assert "this operator cannot read the job" in job["status"]["message"]


CLAIMS = ("../../secrets/spotrun-agents", "..", "x?watch=true", "%2e%2e", "a" * 2_000)


async def test_the_volumes_of_a_job_name_claims_that_are_paths(world: World) -> None:
    """harmless: a name stays one segment of a path; this job gets no worker, other jobs do"""
    await world.nodes.add("a", capacity=ROOM)
    volumes = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": claim}}
        for number, claim in enumerate(CLAIMS)
    ]
    template = {"spec": {"containers": [CONTAINER], "volumes": volumes}}
    await world.create_job("paths", workers={**sized(1), "template": template})
    await world.create_job(workers=sized(1))
    async with world.operator():
        await trains(world, 1)
        job = await world.until_job(lambda s: "phase" in s, "paths")
        assert "world" not in job["status"]


async def test_a_job_asks_for_a_billionth_of_a_billionth_of_a_byte(world: World) -> None:
    """harmless: the operator rounds it as Kubernetes does"""
    await world.nodes.add("a", capacity=ROOM, labels={"node.kubernetes.io/instance-type": "g5.xl"})
    tiny = {"requests": {"memory": "0.000000001n"}}
    container = {"name": "trainer", "image": "x", "args": ["train.py"], "resources": tiny}
    template = {"spec": {"containers": [container]}}
    await world.create_job(workers={**sized(1), "template": template})
    async with world.operator():
        await trains(world, 1)


def _runs(pod: Manifest | None) -> bool:
    return pod is not None and pod["status"].get("phase") == "Running"


def _is_let_go(pod: Manifest | None) -> bool:
    return pod is None or not pod["metadata"].get("finalizers")


async def _account(world: World, namespace: str) -> None:
    """Wait for the account without which no pod is made."""

    async def there() -> bool:
        try:
            await world.kube.get(at("serviceaccounts", namespace, "default"))
        except ApiError:
            return False
        return True

    await world.until(there)
