from spotrun.kube.lease import LEASES
from spotrun.kube.resource import Resource
from spotrun.kube.rest.client import Selection

PODS = Resource("", "v1", "pods")


def test_paths() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("ns") == "/api/v1/namespaces/ns/pods"
    assert PODS.path("ns", "a", "status") == "/api/v1/namespaces/ns/pods/a/status"
    assert LEASES.path("ns", "a") == "/apis/coordination.k8s.io/v1/namespaces/ns/leases/a"


def test_a_name_cannot_leave_its_place() -> None:
    assert PODS.path("../x", "a/../b") == "/api/v1/namespaces/..%2Fx/pods/a%2F..%2Fb"


def test_a_selection_names_only_the_selectors_it_has() -> None:
    assert Selection(PODS).params == {}
    assert Selection(PODS, "ns", "a=b", "c=d").params == {
        "labelSelector": "a=b",
        "fieldSelector": "c=d",
    }
