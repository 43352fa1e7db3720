"""What metrics.k8s.io says of a pod, as shares of what its trainer may use."""

from typing import Any

import msgspec
import pytest

from spotrun.money.shares import Resources
from spotrun.observe.kube_objects import PodMetricsObject, PodObject
from spotrun.observe.telemetry.pod_metrics import allowance, utilization
from spotrun.wire import Utilization

ROOMY = {"requests": {"cpu": "2", "memory": "4Gi"}}
USED = {"cpu": "1500000000n", "memory": "1048576Ki"}  # as metrics-server writes it


def a_pod(*containers: dict[str, Any]) -> PodObject:
    return msgspec.convert({"metadata": {}, "spec": {"containers": list(containers)}}, PodObject)


def a_container(name: str = "trainer", resources: Any = None) -> dict[str, Any]:
    return {"name": name, "resources": resources or {}}


def told(**usage: dict[str, str]) -> PodMetricsObject:
    containers = [{"name": name, "usage": used} for name, used in usage.items()]
    content = {"metadata": {"name": "w"}, "timestamp": "t", "window": "15s"}
    return msgspec.convert({**content, "containers": containers}, PodMetricsObject)


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param(ROOMY, Utilization(cpu=0.75, memory=0.25), id="of its requests"),
        pytest.param(
            {**ROOMY, "limits": {"cpu": "3"}}, Utilization(cpu=0.5, memory=0.25), id="of its limit"
        ),
        pytest.param({"requests": {"cpu": "1"}}, Utilization(cpu=1.0), id="more than it requests"),
        pytest.param({}, Utilization(), id="of nothing"),
    ],
)
def test_use_is_a_share_of_the_limit_else_of_the_request(
    resources: Any, expected: Utilization
) -> None:
    assert utilization(a_pod(a_container(resources=resources)), told(trainer=USED)) == expected


def test_of_several_containers_the_one_that_trains_counts() -> None:
    pod = a_pod(a_container("logs", {"requests": {"cpu": "100"}}), a_container(resources=ROOMY))
    idle = {"cpu": "0", "memory": "0"}
    assert utilization(pod, told(logs=idle, trainer=USED)).cpu == 0.75
    assert utilization(pod, told(logs=idle)) == Utilization()


def test_a_container_that_is_alone_may_have_any_name() -> None:
    assert utilization(a_pod(a_container("main", ROOMY)), told(main=USED)).cpu == 0.75


def test_a_container_that_does_nothing_uses_nothing() -> None:
    assert utilization(a_pod(a_container(resources=ROOMY)), told(trainer={"cpu": "0"})).cpu == 0.0


def test_a_pod_whose_trainer_nobody_finds_may_use_nothing() -> None:
    whole = allowance(a_pod(a_container("a", ROOMY), a_container("b", ROOMY)))
    assert whole == Resources()
