"""`kubectl tjob nodepools` typed at a real cluster, its objects judged by Karpenter's CRDs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import Cluster
from tests.integration.manifests.helpers import apply
from tests.support.processes.plugin import typed

CRDS = Path(__file__).parents[2] / "support" / "karpenter"
KINDS = ("nodepools.karpenter.sh", "nodeoverlays.karpenter.sh")


@pytest.fixture
def karpenter(cluster: Cluster, crds: None) -> Iterator[Cluster]:
    """A cluster that serves Karpenter's kinds."""
    cluster.kubectl("apply", "-f", str(CRDS))
    definitions = [f"crd/{kind}" for kind in KINDS]
    cluster.kubectl("wait", "--for=condition=Established", *definitions, "--timeout=60s")
    yield cluster
    cluster.kubectl("delete", *definitions)


def a_pool(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "spotrun.dev/v1alpha1",
        "kind": "CapacityPool",
        "metadata": {"name": name},
        "spec": spec,
    }


async def test_karpenter_takes_what_is_written(karpenter: Cluster, tmp_path: Path) -> None:
    stormy = a_pool(
        "stormy",
        capacity="Spot",
        zones=["us-east-1a", "us-east-1b"],
        instanceTypes=["g5.xlarge", "g5.2xlarge"],
        nodeSelector={"karpenter.sh/nodepool": "gpu-spot", "example.com/tier": "cheap"},
        tolerations=[{"key": "example.com/training", "operator": "Exists"}],
        maxWorkers=16,
    )
    own = a_pool("own", capacity="Spot", instanceTypes=["p4d.24xlarge"], usdPerHour="9.8")
    apply(karpenter, stormy, own)
    rate = json.dumps({"status": {"interruptionsPerHour": "3"}})
    for name in ("stormy", "own"):
        karpenter.kubectl(
            *("patch", "capacitypool", name, "--subresource=status", "--type=merge", "-p", rate)
        )

    written = await typed(karpenter, "nodepools")
    assert written.code == 0, written.err
    manifests = tmp_path / "nodepools.yaml"
    manifests.write_text(written.out)
    karpenter.kubectl("apply", "--server-side", "-f", str(manifests))  # CEL and schema judge it

    def kept(kind: str, name: str) -> dict[str, Any]:
        found = json.loads(karpenter.kubectl("get", kind, name, "-o", "json").stdout)
        spec: dict[str, Any] = found["spec"]
        return spec

    assert kept("nodepool", "gpu-spot")["limits"] == {"nodes": "16"}
    assert kept("nodepool", "own")["disruption"]["consolidationPolicy"] == "WhenEmpty"
    assert kept("nodeoverlay", "spotrun-stormy")["priceAdjustment"] == "+25.0%"
    assert kept("nodeoverlay", "spotrun-own")["price"] == "12.250000"
    karpenter.kubectl("delete", "capacitypool", "stormy", "own")


async def test_a_cluster_without_pools_is_told_what_to_do(karpenter: Cluster) -> None:
    written = await typed(karpenter, "nodepools")
    wrong = await typed(karpenter, "nodepools", "--node-class", "default")
    assert (written.code, written.out) == (0, "")
    assert "declare one as in examples/capacity-pool.yaml" in written.err
    assert (wrong.code, "write KIND/NAME with a kind of" in wrong.err) == (2, True)
