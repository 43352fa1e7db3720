from dataclasses import replace
from typing import Any

import pytest

from spotrun.api.spec.workers import TargetResource
from spotrun.money.shares import Resources
from spotrun.wire import Utilization
from tests.support.jobs.builders import a_job
from tests.support.jobs.sized_jobs import READING, a_member, facts, with_readings
from tests.support.money.priced_nodes import QUARTER, a_node


@pytest.mark.parametrize(
    ("gpus", "targets", "expected"),
    [
        pytest.param(0, None, [(TargetResource.CPU, 0.7, (0.5, 0.5))], id="without GPUs"),
        pytest.param(8, None, [(TargetResource.GPU, 0.7, (0.75, 0.75))], id="with GPUs"),
        pytest.param(
            8,
            [
                {"resource": "Memory", "utilizationPercent": 50},
                {"resource": "GPU", "utilizationPercent": 90},
            ],
            [(TargetResource.MEMORY, 0.5, (0.25, 0.25)), (TargetResource.GPU, 0.9, (0.75, 0.75))],
            id="as the user says",
        ),
    ],
)
def test_targets_are_the_users_or_what_the_workers_have(
    gpus: int, targets: Any, expected: list[Any]
) -> None:
    scaling = {"targets": targets} if targets else {}
    job = a_job(2, max=8, scaling=scaling).with_facts(requests=Resources(gpus=gpus))
    found = facts(with_readings(job, READING, READING)).gauges
    assert [(one.resource, one.target, one.reported) for one in found] == expected


@pytest.mark.parametrize(
    ("resources", "used"),
    [
        pytest.param({"requests": {"cpu": "1"}}, 1.0, id="more than it requests"),
        pytest.param({"limits": {"cpu": "1"}}, 0.5, id="half of its limit"),
        pytest.param({}, 1.0, id="what Kubernetes says it requests"),
    ],
)
def test_cpu_counts_against_the_limit_or_the_request(resources: Any, used: float) -> None:
    """It tells of half of a limit, else of half of a node, of which it requests a quarter."""
    trainer = {"name": "trainer", "image": "your-registry/train:1", "resources": resources}
    template = {"spec": {"containers": [trainer]}}
    job = with_readings(a_job(1, max=8, template=template), READING)
    worker = a_member(0, node=a_node(), requests=QUARTER)
    [gauge] = facts(replace(job, workers={0: worker})).gauges
    assert gauge.reported == (used,)


@pytest.mark.parametrize(
    ("target", "reported", "silent"),
    [
        pytest.param("CPU", (0.5, 0.9), 1, id="as metrics.k8s.io says, of nothing but the pod"),
        pytest.param("Memory", (0.25,), 2, id="of whom it says that"),
        pytest.param("GPU", (), 3, id="it knows no GPUs"),
    ],
)
def test_where_scripts_tell_nothing_it_counts_what_their_pods_use(
    target: str, reported: tuple[float, ...], silent: int
) -> None:
    used = (Utilization(cpu=0.5, memory=0.25), Utilization(cpu=0.9), None)
    job = with_readings(
        a_job(3, max=8, scaling={"targets": [{"resource": target}]}), None, None, None
    )
    job = job.with_facts(is_mute=True, use_unknown="because")
    workers = {n: replace(a_member(n, None), used=one) for n, one in enumerate(used)}
    found = facts(replace(job, workers=workers))
    [gauge] = found.gauges
    assert (gauge.reported, gauge.silent) == (reported, silent)
    assert (found.is_mute, found.use_unknown, found.has_checkpoints) == (True, "because", False)


def test_members_that_tell_nothing_are_counted() -> None:
    [gauge] = facts(with_readings(a_job(3, max=8), READING, None, None)).gauges
    assert (gauge.reported, gauge.silent) == ((0.5,), 2)
