from decimal import Decimal
from typing import Any

import msgspec
import pytest
from msgspec import structs

from spotrun.money.shares import Resources, times_in
from spotrun.observe.kube_objects import PodAnnotations, PodObject
from spotrun.observe.resources import (
    requests_of,
    requests_of_template,
    resources_of,
)
from tests.support.jobs.builders import a_spec

GIB = Decimal(2**30)


def asking(**amounts: str) -> dict[str, Any]:
    named = {{"gpus": "nvidia.com/gpu"}.get(key, key): text for key, text in amounts.items()}
    return {"resources": {"requests": named}}


def a_pod(*containers: dict[str, Any], **spec: Any) -> PodObject:
    meta = {"name": "p", "uid": "u", "resourceVersion": "1"}
    return msgspec.convert(
        {"metadata": meta, "spec": {"containers": containers, **spec}}, PodObject
    )


def test_quantities_are_numbers() -> None:
    amounts = {"cpu": "7910m", "memory": "15Gi", "nvidia.com/gpu": "4", "pods": "110"}
    assert resources_of(amounts) == Resources(Decimal("7.91"), 15 * GIB, 4)
    assert resources_of({}) == Resources()


def test_numbers_are_within_the_bounds_that_kubernetes_has() -> None:
    tiny, huge = resources_of({"memory": "0.000000001n"}), resources_of({"memory": "999999999E"})
    assert (tiny.memory, huge.memory) == (Decimal("1e-9"), Decimal(2**63 - 1))
    assert times_in(tiny, huge) > 10**27
    assert times_in(huge, tiny) == 0


@pytest.mark.parametrize("text", ["", "many", "-1", "1.2.3"])
def test_what_cannot_be_read_counts_as_nothing(text: str) -> None:
    assert resources_of({"cpu": text}) == Resources()


@pytest.mark.parametrize(
    "name", ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "amd.com/gpu", "aws.amazon.com/neuron"]
)
def test_gpus_have_several_names(name: str) -> None:
    assert resources_of({name: "2"}).gpus == 2


@pytest.mark.parametrize(("said", "devices"), [("4", 4), ("", 0), ("-1", 0), ("9" * 5, 0)])
def test_a_pod_says_how_many_devices_it_was_made_with(said: str, devices: int) -> None:
    pod = a_pod(asking(cpu="2"))
    meta = structs.replace(pod.metadata, annotations=PodAnnotations(devices=said))
    asked = requests_of(structs.replace(pod, metadata=meta))
    assert asked == Resources(Decimal(2), claimed=devices)
    assert times_in(asked, Resources(Decimal(5))) == 2, "the scheduler alone knows where they are"


def test_a_pod_asks_for_the_sum_of_its_containers() -> None:
    pod = a_pod(asking(cpu="2", gpus="1"), asking(cpu="500m", memory="1Gi"))
    assert requests_of(pod) == Resources(Decimal("2.5"), GIB, 1)


def test_a_pod_asks_for_what_its_start_needs_where_that_is_more() -> None:
    inits = [asking(cpu="4"), asking(memory="2Gi")]
    pod = a_pod(asking(cpu="2", memory="1Gi"), initContainers=inits, overhead={"cpu": "250m"})
    assert requests_of(pod) == Resources(Decimal("4.25"), 2 * GIB)


def test_side_containers_run_along() -> None:
    side = {**asking(cpu="1"), "restartPolicy": "Always"}
    assert requests_of(a_pod(asking(cpu="2"), initContainers=[side])).cpu == 3


def test_a_template_asks_for_its_limits_where_it_requests_nothing() -> None:
    resources = {"limits": {"cpu": 2, "nvidia.com/gpu": 1}, "requests": {"cpu": "1"}}
    container = {"name": "trainer", "image": "i", "resources": resources}
    spec = a_spec(template={"spec": {"containers": [container]}})
    assert requests_of_template(spec.workers.template) == Resources(Decimal(1), Decimal(0), 1)


@pytest.mark.parametrize(
    ("one", "free", "times"),
    [
        (Resources(Decimal(1)), Resources(Decimal("3.9"), GIB), 3),
        (Resources(Decimal(1), GIB), Resources(Decimal(3), 2 * GIB), 2),
        (Resources(gpus=4), Resources(Decimal(90), GIB, 8), 2),
        (Resources(gpus=1), Resources(Decimal(90), GIB), 0),
        (Resources(Decimal(1)), Resources(Decimal(-1)), 0),
        (Resources(), Resources(), 1),
    ],
)
def test_how_often_something_fits(one: Resources, free: Resources, times: int) -> None:
    assert times_in(one, free) == times
