"""The operator's Lease does not queue with everybody's traffic."""

from devcluster.cluster import Cluster
from tests.integration.manifests.helpers import OPERATOR, Server, apply, only, shipped, until

LEASE = "/apis/coordination.k8s.io/v1/namespaces/spotrun-system/leases/spotrun"
PODS = "/api/v1/pods?limit=1"


def test_only_the_lease_has_its_own_priority(cluster: Cluster, server: Server, rbac: None) -> None:
    ours = only(shipped("flowschema.yaml"), "FlowSchema", "spotrun-leader-election")
    apply(cluster, ours)
    what = ("get", "flowschema", "spotrun-leader-election", "-o", "jsonpath={.metadata.uid}")
    uid = cluster.kubectl(*what).stdout

    def flows_by_ours(path: str) -> bool:
        return server.ask(OPERATOR, "GET", path).headers["X-Kubernetes-Pf-Flowschema-Uid"] == uid

    until(lambda: flows_by_ours(LEASE), "the flow schema to be in use")
    assert not flows_by_ours(PODS)


def test_its_level_is_one_that_kubernetes_brings(cluster: Cluster) -> None:
    (ours,) = shipped("flowschema.yaml")
    level = ours["spec"]["priorityLevelConfiguration"]["name"]
    cluster.kubectl("get", "prioritylevelconfiguration", level)
