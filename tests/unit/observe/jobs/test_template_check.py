"""A template of odd types is told from the others, and trips nobody who looks into it."""

from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from spotrun.act.manifests.worker_pod import worker_pod
from spotrun.act.manifests.worker_settings import Settings
from spotrun.api.capacitypool import Capacity
from spotrun.money.shares import Resources, times_in
from spotrun.observe.jobs.device_claims import device_claims_of
from spotrun.observe.jobs.template_check import wrong_type
from spotrun.observe.pools.fit import demand_of, suits
from spotrun.observe.template_defaults import processes
from spotrun.policies.pool.eligibility import offers
from spotrun.state.actions import Create
from spotrun.state.market import Market, PoolFacts
from tests.support.api.manifest_cases import FULL
from tests.support.jobs.builders import JobBuilder, a_job, a_spec

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
FIELDS = (
    *("affinity", "affinity.nodeAffinity", f"affinity.nodeAffinity.{REQUIRED}", TERMS),
    *(f"{TERMS}.0.matchExpressions", f"{TERMS}.0.matchExpressions.0"),
    *("nodeSelector", "nodeSelector.zone", "tolerations", "tolerations.0", "volumes", "volumes.0"),
    *("initContainers", "initContainers.0", "initContainers.0.resources", "securityContext"),
    *("terminationGracePeriodSeconds", "automountServiceAccountToken"),
    *("containers.0.env", "containers.0.env.0", "containers.0.volumeMounts"),
    *("containers.0.volumeMounts.0", "containers.0.resources", "containers.0.resources.limits"),
    *("containers.0.resources.requests", "containers.0.securityContext"),
    *("containers.0.terminationMessagePath", "containers.0.resources.claims"),
    *("containers.0.resources.claims.0", "resourceClaims", "resourceClaims.0"),
)
TYPE = "node.kubernetes.io/instance-type"
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 5, 2**70, 1.5, "", "x", "\u00b2", "9" * 5_000),
    *(
        [],
        {},
        [1],
        [None],
        ["x"],
        [[]],
        [{}],
        {"a": 1},
        {"key": [1]},
        {"name": 5},
        {"name": "x", "mountPath": "/x"},
        {"name": "x", "request": 5, "resourceClaimName": ["x"]},
        *({"name": "x", "persistentVolumeClaim": claim} for claim in (1, {}, {"claimName": "x"})),
        {"name": "x", "persistentVolumeClaim": {"claimName": [1], "readOnly": "x"}},
    ),
    *({"memory": "0.000000001n"}, {"memory": "9" * 15 + "E"}, {"memory": ["x"]}, {"cpu": True}),
    *({"nvidia.com/gpu": "\u00b2"}, {"nvidia.com/gpu": "9" * 5_000}),
    {"key": TYPE, "operator": "Gt", "values": ["9" * 5_000]},
    {"key": [TYPE], "operator": "In", "values": 5},
    {"key": TYPE, "operator": "In", "values": 5},
)
LABELS = {TYPE: "5", "zone": "a"}
NODE = Resources(Decimal(8), Decimal(2**40), 8)
POOL = PoolFacts(name="p", capacity=Capacity.SPOT, instance_types=("5",), allocatable=NODE)


def put(spec: dict[str, Any], path: str, value: Any) -> None:
    """Put a value where it may not belong, with all that it takes to get there."""
    place: Any = spec
    steps = path.split(".")
    for step, following in pairwise(steps):
        if isinstance(place, list):
            place = place[0]
        else:
            place = place.setdefault(step, [{}] if following == "0" else {})
    place[0 if isinstance(place, list) else steps[-1]] = value


@pytest.mark.parametrize("path", FIELDS)
def test_whatever_a_template_holds_it_is_refused_or_looked_into(path: str) -> None:
    fit = 0
    for value in VALUES:
        content: dict[str, Any] = {"containers": [{"name": "trainer", "image": "i"}]}
        put(content, path, value)
        job = a_job(2, template={"spec": content})
        if wrong_type(job.spec.workers.template) is None:
            look_into(job)
            fit += 1
    assert 0 < fit < len(VALUES)


def look_into(made: JobBuilder) -> None:
    """Do all that is done with a template before there is a pod of it, and the pod."""
    spec, job = made.spec, made.snapshot()
    demand = demand_of(spec)
    times_in(demand.requests, NODE)
    suits(demand, LABELS)
    offers(replace(job, market=Market((POOL,))))
    assert processes(job) >= 1
    device_claims_of(spec, job.status, job.namespace)
    assert worker_pod(job, Create(0), Settings(server="192.0.2.1:9443", ca_pem=""))


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("volumes", True, "$.volumes"),
        ("containers.0.volumeMounts", [{"name": "a"}], "mountPath"),
        ("volumes", [{"persistentVolumeClaim": {"claimName": "a"}}], "name"),
        ("terminationGracePeriodSeconds", "long", "$.terminationGracePeriodSeconds"),
        (f"{TERMS}.0.matchExpressions", [{"key": [1]}], "matchExpressions"),
    ],
)
def test_it_is_said_where_a_template_does_not_fit(path: str, value: Any, where: str) -> None:
    content: dict[str, Any] = {"containers": [{"name": "trainer", "image": "i"}]}
    put(content, path, value)
    said = wrong_type(a_spec(template={"spec": content}).workers.template)
    assert said is not None
    assert where in said


def test_a_template_with_everything_fits() -> None:
    template = FULL["spec"]["workers"]["template"]
    assert wrong_type(a_spec(template=template).workers.template) is None
