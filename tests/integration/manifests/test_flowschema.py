"""The operator's requests do not queue with everybody's, and its Lease not with those."""

from collections.abc import Iterator

import pytest

from devcluster.cluster import Cluster
from tests.integration.manifests.helpers import OPERATOR, Server, apply, shipped, until

LEASE = "/apis/coordination.k8s.io/v1/namespaces/spotrun-system/leases/spotrun"
PODS = "/api/v1/pods?limit=1"
JOBS = "/apis/spotrun.dev/v1alpha1/namespaces/ml/trainingjobs"
SOMEBODY = "system:serviceaccount:default:default"


@pytest.fixture
def names(cluster: Cluster) -> Iterator[dict[str, str]]:
    """The shipped schemas in use: their names by their UIDs."""
    schemas = shipped("flowschema.yaml")
    apply(cluster, *schemas)
    found = {}
    for one in schemas:
        name = one["metadata"]["name"]
        what = ("get", "flowschema", name, "-o", "jsonpath={.metadata.uid}")
        found[cluster.kubectl(*what).stdout] = name
    yield found
    cluster.kubectl("delete", "flowschema", *found.values())


def test_the_lease_and_all_other_requests_of_the_operator_have_their_own_priorities(
    names: dict[str, str], server: Server, rbac: None
) -> None:
    def flow(user: str, path: str) -> str | None:
        headers = server.ask(user, "GET", path).headers
        return names.get(headers["X-Kubernetes-Pf-Flowschema-Uid"])

    until(lambda: flow(OPERATOR, LEASE) == "spotrun-leader-election", "the Lease's to be in use")
    until(lambda: flow(OPERATOR, PODS) == "spotrun", "the other one to be in use")
    assert flow(OPERATOR, JOBS) == "spotrun"
    assert flow(SOMEBODY, PODS) is None


def test_their_levels_are_ones_that_kubernetes_brings(cluster: Cluster) -> None:
    for ours in shipped("flowschema.yaml"):
        level = ours["spec"]["priorityLevelConfiguration"]["name"]
        cluster.kubectl("get", "prioritylevelconfiguration", level)
