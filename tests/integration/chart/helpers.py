"""Helm as a user runs it, and what it renders."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from charts import helm
from charts.manifests import CHART

FOREIGN = (
    ("certificates", "cert-manager.io", "v1", "Certificate"),
    ("servicemonitors", "monitoring.coreos.com", "v1", "ServiceMonitor"),
    ("prometheusrules", "monitoring.coreos.com", "v1", "PrometheusRule"),
)
"""The kinds of others that the chart can make, and a bare cluster does not know."""

IMAGE = "--set=image.repository=your-registry/spotrun-operator"
POOLS_ARE_KNOWN = "--api-versions=spotrun.dev/v1alpha1/CapacityPool"
CASES = sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").iterdir())

Identity = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass(frozen=True)
class Helm:
    """The program."""

    path: Path

    def __call__(self, *arguments: str | Path) -> str:
        """Run it; raises HelmError."""
        return helm.run(self.path, *arguments)

    def template(self, *arguments: str | Path, chart: Path = CHART) -> list[dict[str, Any]]:
        """Return the objects of a release called spotrun."""
        known = ("--kube-version=1.37.0", POOLS_ARE_KNOWN, "--namespace=spotrun-system")
        text = self("template", "spotrun", chart, *known, *arguments)
        return [part for part in yaml.safe_load_all(text) if part]

    def case(self, name: str) -> list[dict[str, Any]]:
        """Return the objects of a release with the values of a file in ci/."""
        return self.template(f"--values={CHART / 'ci' / f'{name}-values.yaml'}")

    def refusal(self, *arguments: str) -> str:
        """Why it would not be rendered."""
        try:
            self.template(*arguments)
        except helm.HelmError as error:
            return str(error)
        raise AssertionError(f"nothing was refused: {arguments}")


def identity(document: dict[str, Any]) -> Identity:
    """Return the kind, namespace and name of an object."""
    meta = document["metadata"]
    return document["kind"], meta.get("namespace", ""), meta["name"]


def of_kind(documents: Iterable[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The objects of a kind."""
    return [document for document in documents if document["kind"] == kind]
