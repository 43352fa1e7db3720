"""The operator's Deployment: accepted where restricted is enforced, and true to its options."""

import argparse
from typing import Any

import pytest

from devcluster.cluster import Cluster
from spotrun.cli.operator_process.flags import describe
from spotrun.runtime.options import Options, read
from tests.integration.manifests.helpers import Server, apply, only, shipped

SYSTEM = "spotrun-system"
PODS = f"/api/v1/namespaces/{SYSTEM}/pods?dryRun=All&fieldValidation=Strict"
REPLICAS = "system:serviceaccount:kube-system:replicaset-controller"
"""The account that makes the pods of a Deployment."""

DOCUMENTS = shipped("operator.yaml")
TEMPLATE: dict[str, Any] = only(DOCUMENTS, "Deployment", "spotrun")["spec"]["template"]
(CONTAINER,) = TEMPLATE["spec"]["containers"]


def options() -> Options:
    """What the operator reads of its environment there."""
    parser = argparse.ArgumentParser()
    describe(parser)
    told = {one["name"]: one["value"] for one in CONTAINER["env"] if "value" in one}
    return read(parser.parse_args([]), told)


def test_agents_are_sent_to_the_service_of_agents() -> None:
    service = only(DOCUMENTS, "Service", "spotrun-agents")
    (port,) = service["spec"]["ports"]

    assert options().advertise == (f"spotrun-agents.{SYSTEM}.svc", port["port"])


def test_its_ports_are_those_that_it_listens_on() -> None:
    told = options()
    listening = {
        "agents": told.agents_port,
        "metrics": told.metrics_port,
        "liveness": told.liveness_port,
    }

    assert {p["name"]: p["containerPort"] for p in CONTAINER["ports"]} == listening
    assert CONTAINER["readinessProbe"]["httpGet"]["port"] == "metrics"
    assert CONTAINER["livenessProbe"]["httpGet"]["port"] == "liveness"


@pytest.mark.parametrize("name", ["spotrun-agents", "spotrun-metrics"])
def test_services_lead_to_its_pods_and_ports(name: str) -> None:
    service = only(DOCUMENTS, "Service", name)["spec"]

    assert service["selector"].items() <= TEMPLATE["metadata"]["labels"].items()
    assert {p["targetPort"] for p in service["ports"]} <= {p["name"] for p in CONTAINER["ports"]}


def test_one_of_several_replicas_may_be_drained_at_a_time() -> None:
    budget = only(DOCUMENTS, "PodDisruptionBudget", "spotrun")["spec"]
    deployment = only(DOCUMENTS, "Deployment", "spotrun")["spec"]

    assert budget["selector"] == deployment["selector"]
    assert budget["maxUnavailable"] < deployment["replicas"]


@pytest.mark.usefixtures("rbac")
def test_all_of_it_is_accepted(cluster: Cluster) -> None:
    apply(cluster, *DOCUMENTS)
    cluster.kubectl("-n", SYSTEM, "delete", "deployment,poddisruptionbudget,service", "--all")


@pytest.mark.usefixtures("rbac")
@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        pytest.param({}, "", id="as it is"),
        pytest.param({"allowPrivilegeEscalation": True}, "allowPrivilegeEscalation", id="weakened"),
    ],
)
def test_its_pods_are_accepted_where_restricted_is_enforced(
    server: Server, change: dict[str, Any], refusal: str
) -> None:
    security = {**CONTAINER["securityContext"], **change}
    spec = {**TEMPLATE["spec"], "containers": [{**CONTAINER, "securityContext": security}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator"}, "spec": spec}

    answer = server.ask(REPLICAS, "POST", PODS, pod)

    assert (answer.accepted, refusal in answer.message) == (not refusal, True), answer.message
