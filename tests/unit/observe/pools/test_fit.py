"""Whether a template's workers can run on a node, as Kubernetes has it."""

from typing import Any

import pytest

from spotrun.api.capacitypool import Toleration
from spotrun.observe.kube_objects import Taint
from spotrun.observe.pools.fit import Demands, demand_of, suits
from tests.support.jobs.builders import a_spec

LABELS = {"zone": "a", "size": "8"}


def a_demand(**spec: Any) -> Any:
    container = {"name": "trainer", "image": "i", **spec.pop("container", {})}
    return demand_of(a_spec(template={"spec": {"containers": [container], **spec}}))


def required(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    selector = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def one(operator: str, key: str = "zone", *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


@pytest.mark.parametrize(
    ("affinity", "fits"),
    [
        (required([one("In", "zone", "a", "b")]), True),
        (required([one("In", "zone", "b")]), False),
        (required([one("In", "other", "b")]), False),
        (required([one("NotIn", "zone", "a")]), False),
        (required([one("NotIn", "other", "a")]), True),
        (required([one("Exists")]), True),
        (required([one("DoesNotExist")]), False),
        (required([one("Gt", "size", "4")]), True),
        (required([one("Lt", "size", "4")]), False),
        (required([one("Gt", "zone", "4")]), False),
        (required([one("Of tomorrow")]), False),
        (required([one("In", "zone", "b")], [one("Exists", "size")]), True),
        (required([one("Exists"), one("In", "zone", "b")]), False),
        (required([]), False),
        ({"podAffinity": {}}, True),
    ],
)
def test_required_affinity(affinity: dict[str, Any], fits: bool) -> None:
    assert suits(a_demand(affinity=affinity), LABELS) is fits


def test_a_node_selector_asks_for_each_label() -> None:
    assert suits(a_demand(nodeSelector={"zone": "a"}), LABELS)
    assert not suits(a_demand(nodeSelector={"zone": "a", "size": "9"}), LABELS)


def a_taint(key: str, value: str = "", effect: str = "NoSchedule") -> Taint:
    return Taint(key, value, effect)


@pytest.mark.parametrize(
    ("taint", "tolerated"),
    [
        (a_taint("cloud.google.com/gke-spot", "true"), True),
        (a_taint("kubernetes.azure.com/scalesetpriority", "spot"), True),
        (a_taint("nvidia.com/gpu", "present"), True),
        (a_taint("team", "red"), True),
        (a_taint("team", "blue"), False),
        (a_taint("team", "red", "NoExecute"), False),
        (a_taint("of-the-pool", "yes"), True),
        (a_taint("unknown"), False),
        (a_taint("unknown", effect="PreferNoSchedule"), True),
    ],
)
def test_taints(taint: Taint, tolerated: bool) -> None:
    demand = a_demand(
        container={"resources": {"limits": {"nvidia.com/gpu": 1}}},
        tolerations=[{"key": "team", "value": "red", "effect": "NoSchedule"}],
    )
    further = (Toleration(key="of-the-pool", value="yes"),)
    assert suits(demand, LABELS, [taint], further) is tolerated


def test_who_tolerates_everything() -> None:
    assert suits(a_demand(tolerations=[{"operator": "Exists"}]), {}, [a_taint("unknown")])


def test_a_template_is_read_once() -> None:
    demands = Demands()
    assert demands.of(a_spec(), "t1") is demands.of(a_spec(), "t1")
