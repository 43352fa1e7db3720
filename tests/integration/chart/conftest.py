"""A cluster that knows what the chart's objects are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import Cluster
from tests.integration.chart.helpers import FOREIGN
from tests.integration.manifests.helpers import apply, namespace


@pytest.fixture(scope="session")
def place(cluster: Cluster, crds: None) -> Iterator[Cluster]:
    """A cluster with the namespaces and the foreign kinds that rendered objects need."""
    apply(cluster, namespace("spotrun-system"), namespace("ml"))
    apply(cluster, *(_definition(*one) for one in FOREIGN))
    for plural, group, *_ in FOREIGN:
        condition = "--for=condition=Established"
        cluster.kubectl("wait", condition, f"crd/{plural}.{group}", "--timeout=60s")
    yield cluster
    for plural, group, *_ in FOREIGN:
        cluster.kubectl("delete", "crd", f"{plural}.{group}", "--wait=false")


def _definition(plural: str, group: str, version: str, kind: str) -> dict[str, Any]:
    """A kind of others, of which only the name is known."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


@pytest.fixture
def kubeconfig(cluster: Cluster) -> Path:
    return cluster.kubeconfig
