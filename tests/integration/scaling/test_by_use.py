"""Jobs whose scripts tell nothing of their steps, sized by what metrics.k8s.io says of their pods.

The metrics are played (`tests/support/cluster/pod_metrics.py`); whoever reads them is real: the
operator, and for comparison the HorizontalPodAutoscaler of the controller manager.
"""

from typing import Any

import pytest

from devcluster.client import Manifest, at
from devcluster.cluster import Cluster
from spotrun.observe.telemetry import metrics_server
from spotrun.policies.scaling.policy import DECISIONS
from tests.integration.scaling.helpers import (
    AT_ONCE,
    ROOMY,
    an_autoscaler,
    until_reason,
    until_trained,
)
from tests.support.cluster.operator_world import World
from tests.support.cluster.pod_metrics import measured, serve_metrics

ASKED = {"requests": {"cpu": "1", "memory": "4Gi"}}
CONTAINER = {"name": "trainer", "image": "x", "args": ["train.py"], "resources": ASKED}
SCALES_AT_ONCE = {
    "kube-controller-manager": [
        "--horizontal-pod-autoscaler-sync-period=1s",
        "--horizontal-pod-autoscaler-initial-readiness-delay=0s",
        "--horizontal-pod-autoscaler-cpu-initialization-period=1s",
    ]
}


@pytest.fixture(scope="module")
def extra_flags() -> dict[str, list[str]]:
    return SCALES_AT_ONCE


@pytest.fixture(scope="module")
def metrics_api(empty_cluster: Cluster) -> None:
    """The cluster serves metrics.k8s.io, which the shared one does not."""
    serve_metrics(empty_cluster)


@pytest.fixture
def measuring(alone: World, metrics_api: None) -> World:
    return alone


@pytest.fixture(autouse=True)
def asks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if minutes were moments."""
    for name in ("IGNORED_SECONDS", "ASK_SECONDS", "_LOOK_SECONDS"):
        monkeypatch.setattr(metrics_server, name, 0.2)


async def a_mute_job(world: World, replicas: int, most: int = 4, **scaling: Any) -> None:
    """Of a script that saves and tells nothing."""
    world.play().is_mute = True
    await world.nodes.add("a", capacity=ROOMY)
    template = {"spec": {"containers": [CONTAINER]}}
    workers = {"min": 1, "max": most, "replicas": replicas, "template": template}
    saved = {"uri": "s3://your-bucket/job"}
    await world.create_job(workers=workers, scaling={**AT_ONCE, **scaling}, checkpoint=saved)


def busy_up_to_three(workers: int) -> str:
    """Two have too much to do, three as much as they should."""
    return "1" if workers < 3 else "700000000n"


def decisions(job: Manifest) -> list[tuple[str, str]]:
    """About the size, and why in brief."""
    made = (one for one in job["status"]["decisions"] if one["what"] in DECISIONS)
    return [(one["what"], one["why"].partition(";")[0]) for one in made]


async def test_the_use_of_pods_decides_where_scripts_tell_nothing(measuring: World) -> None:
    await a_mute_job(measuring, 2, most=3)
    async with measuring.operator(), measured(measuring, busy_up_to_three):
        await until_trained(measuring, 3)
        job = await until_reason(measuring, "WithinTolerance")
        # One of them may have been measured before the other: then it waited for more.
        [why] = [why for what, why in decisions(job) if what == "Grow"]
        assert why == "2 -> 3 workers: CPU 100% of a target of 70%"
        assert job["spec"]["workers"]["replicas"] == 3


async def test_workers_that_use_little_are_given_back(measuring: World) -> None:
    await a_mute_job(measuring, 4)
    async with measuring.operator(), measured(measuring, lambda _: "50m"):
        job = await until_reason(measuring, "AtSmallestSize")
        assert job["spec"]["workers"]["replicas"] == 1


async def test_an_hpa_finds_the_same_size_by_the_same_figures(measuring: World) -> None:
    """In mode Manual, where the size is its to find, through `/scale`."""
    await a_mute_job(measuring, 2, mode="Manual")
    async with measuring.operator(), measured(measuring, busy_up_to_three):
        await measuring.until_phase("Running")
        await measuring.kube.create(
            at("horizontalpodautoscalers", measuring.namespace, group="autoscaling/v2"),
            an_autoscaler(),
        )
        job = await until_trained(measuring, 3)
        assert "scaling" not in job["status"]


async def test_where_nobody_serves_metrics_that_is_said_once(world: World) -> None:
    """In a cluster as it comes from the shelf."""
    await a_mute_job(world, 2)
    async with world.operator():
        job = await until_reason(world, "NoUtilization")
        [(what, why)] = decisions(job)
        assert what == "Stay"
        assert why.startswith("2 workers: the script does not train through Run, and this cluster ")
        assert "serves no metrics.k8s.io: install metrics-server" in why
        assert job["status"]["scaling"]["decisions"]["NoUtilization"] == 1
